package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

const (
	// lineEvery is the time between two lines of progress where there is no terminal.
	lineEvery = 5 * time.Second
	// barEvery is the time between two changes of the line on a terminal.
	barEvery = 500 * time.Millisecond
)

// progress shows how far a command is: on a terminal by rewriting one line, elsewhere by a new line every few seconds.
type progress struct {
	w        io.Writer
	terminal bool
	last     time.Time
	open     bool // the line on the terminal has not ended
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), last: time.Now()}
}

// show shows the state, unless the previous one was shown less than barEvery or lineEvery ago.
func (p *progress) show(format string, args ...any) {
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf(format, args...)
	if p.terminal {
		p.open = true
		if n := columns(p.w); n > 0 { // a line that wraps could not be overwritten
			line = line[:min(len(line), n-1)]
		}
		_, _ = fmt.Fprint(p.w, "\r\x1b[K"+line) // progress only.
		return
	}
	_, _ = fmt.Fprintln(p.w, line) // progress only.
}

// columns returns the width of the terminal w, or 0 if w is no terminal or does not tell it.
func columns(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// end ends the line on the terminal.
func (p *progress) end() {
	if p.open {
		_, _ = fmt.Fprintln(p.w) // progress only.
	}
	p.open = false
}
