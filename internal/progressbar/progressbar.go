// Package progressbar shows how far a command is: as a bar on a terminal, and as a line every few seconds elsewhere.
package progressbar

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// lineEvery is how often a line is written if the output is not a terminal.
	lineEvery = 5 * time.Second
	// barEvery is how often the bar on a terminal is rewritten.
	barEvery = 500 * time.Millisecond
	// barWidth is the longest bar; a shorter one than barLeast is left out.
	barWidth, barLeast = 24, 6
	// defaultColumns is the width of a terminal whose width is not known.
	defaultColumns = 80
)

// Output is where progress is shown. Other lines may be written to it while no state is followed.
type Output struct {
	io.Writer
	// Columns returns the width of the terminal, or 0 if it is not known. It is nil if Writer is not a terminal.
	Columns func() int
}

// State is how far a command is: in words, and as a share from 0 to 1.
type State func(now time.Time) (text string, done float64)

// Follow shows the state regularly until end is called. On a terminal the last state stays.
func (o Output) Follow(state State) (end func()) {
	show := func(now time.Time) {
		text, done := state(now)
		if o.Columns != nil {
			text = withBar(text, done, o.columns())
		}
		o.Show(text)
	}
	ended := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		ticker := time.NewTicker(o.Every())
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				show(now)
			case <-ended:
				if o.Columns != nil {
					show(time.Now())
					_, _ = fmt.Fprintln(o) // progress only: ends the bar's line.
				}
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		shown.Wait()
	})
}

// Timed follows what takes a known time.
func (o Output) Timed(length time.Duration, what string) (end func()) {
	began := time.Now()
	return o.Follow(func(now time.Time) (string, float64) {
		took := min(length, now.Sub(began))
		return line(float64(took)/float64(length), length-took, what)
	})
}

// line returns the state as text: the share that is done, the time left and what is done now.
func line(done float64, left time.Duration, what string) (string, float64) {
	return fmt.Sprintf("%d%%  %v left  %s", int(100*done), left.Round(time.Second), what), done
}

// Every is the least time between two calls of Show.
func (o Output) Every() time.Duration {
	if o.Columns != nil {
		return barEvery
	}
	return lineEvery
}

// Show writes a line, on a terminal in the place of the previous one.
func (o Output) Show(text string) {
	if o.Columns == nil {
		text += "\n"
	} else {
		text = "\r\x1b[K" + text[:max(0, min(len(text), o.columns()-1))] // a longer one would wrap, and could not be overwritten
	}
	_, _ = fmt.Fprint(o, text) // progress only.
}

func (o Output) columns() int { return cmp.Or(o.Columns(), defaultColumns) }

// withBar puts a bar of done, from 0 to 1, before text if the columns of a terminal have room for it.
func withBar(text string, done float64, columns int) string {
	width := min(barWidth, columns-len(text)-len("[] ")-1)
	if width < barLeast {
		return text
	}
	full := min(width, max(0, int(float64(width)*done)))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "] " + text
}
