package load

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"rideshare/bench/loadgen"
)

const (
	// lineEvery is how often a line is written if the output is not a terminal.
	lineEvery = 5 * time.Second
	// barEvery is how often the bar on a terminal is rewritten.
	barEvery = 500 * time.Millisecond
	// barWidth is the longest bar; a shorter one than barLeast is left out.
	barWidth, barLeast = 24, 6
	// defaultColumns is the width of a terminal that does not tell it.
	defaultColumns = 80
)

// progress reports the state of a run.
type progress struct {
	cfg      Config
	recorder *loadgen.Recorder
	watch    *watch
}

func newProgress(cfg Config, recorder *loadgen.Recorder, w *watch) *progress {
	return &progress{cfg: cfg, recorder: recorder, watch: w}
}

// run reports until ctx ends.
func (p *progress) run(ctx context.Context) {
	every := lineEvery
	if p.cfg.Terminal {
		every = barEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			p.print(p.line(now))
		case <-ctx.Done():
			if p.cfg.Terminal {
				_, _ = fmt.Fprintln(p.cfg.Progress) // progress only: ends the bar's line.
			}
			return
		}
	}
}

func (p *progress) print(line string) {
	if p.cfg.Terminal {
		line = "\r\x1b[K" + line // overwrites the previous line
	} else {
		line += "\n"
	}
	_, _ = fmt.Fprint(p.cfg.Progress, line) // progress only.
}

// line is the state at now, in one line.
func (p *progress) line(now time.Time) string {
	at := p.recorder.Progress(now)
	var b strings.Builder
	p99 := "-"
	if at.Last.All.Count > 0 {
		p99 = latency(at.Last.All.P99)
	}
	fmt.Fprintf(&b, "%s  %.0f/s  p99 %s  errors %d", p.cfg.Plan[at.Phase].Name, at.Last.Rate(), p99, at.Total.Failed)
	if s, ok := p.watch.last(); ok && s.Problem == "" {
		fmt.Fprintf(&b, "  slaves %d of %d  lag %d", s.Ready, s.Desired, s.Lag)
	} else if ok {
		b.WriteString("  slaves ?")
	}
	fmt.Fprintf(&b, "  %v left", at.Left.Round(time.Second))
	if !p.cfg.Terminal {
		return b.String()
	}
	total := p.cfg.Plan.Duration()
	return withBar(b.String(), float64(total-at.Left)/float64(max(1, total)), p.columns())
}

func (p *progress) columns() int {
	if p.cfg.Columns == nil {
		return defaultColumns
	}
	return cmp.Or(p.cfg.Columns(), defaultColumns)
}

// withBar puts a bar of done, from 0 to 1, before text. The line stays shorter than a terminal's columns: a longer one
// would wrap, and could not be overwritten.
func withBar(text string, done float64, columns int) string {
	if width := min(barWidth, columns-len(text)-len("[] ")-1); width >= barLeast {
		full := min(width, max(0, int(float64(width)*done)))
		text = "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "] " + text
	}
	return text[:max(0, min(len(text), columns-1))]
}

// latency formats a latency for readers.
func latency(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
