package load

import (
	"fmt"
	"strings"
	"time"

	"rideshare/bench/loadgen"
)

// progress is the state of a run.
type progress struct {
	plan     loadgen.Plan
	recorder *loadgen.Recorder
	watch    *watch
}

// state is the state at now, in one line, and the part of the plan that is done.
func (p *progress) state(now time.Time) (text string, done float64) {
	at := p.recorder.Progress(now)
	var b strings.Builder
	p99 := "-"
	if at.Last.All.Count > 0 {
		p99 = latency(at.Last.All.P99)
	}
	fmt.Fprintf(&b, "%s  %.0f/s  p99 %s  errors %d", p.plan[at.Phase].Name, at.Last.Rate(), p99, at.Total.Failed)
	if s, ok := p.watch.last(); ok && s.Problem == "" {
		fmt.Fprintf(&b, "  slaves %d of %d  lag %d", s.Ready, s.Desired, s.Lag)
	} else if ok {
		b.WriteString("  slaves ?")
	}
	fmt.Fprintf(&b, "  %v left", at.Left.Round(time.Second))
	total := p.plan.Duration()
	return b.String(), float64(total-at.Left) / float64(max(1, total))
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
