package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"rideshare/internal/progressbar"
)

// progressOn shows progress on w.
func progressOn(w io.Writer) progressbar.Output {
	if !isTerminal(w) {
		return progressbar.Output{Writer: w}
	}
	return progressbar.Output{Writer: w, Columns: func() int { return columns(w) }}
}

// progress shows how far a command is, whenever the command has got further.
type progress struct {
	progressbar.Output

	last time.Time
	open bool // the line on the terminal has not ended
}

func newProgress(w io.Writer) *progress {
	return &progress{Output: progressOn(w), last: time.Now()}
}

// show shows the state, unless the previous one was shown a moment ago.
func (p *progress) show(format string, args ...any) {
	if time.Since(p.last) < p.Every() {
		return
	}
	p.last, p.open = time.Now(), p.Columns != nil
	p.Show(fmt.Sprintf(format, args...))
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
		_, _ = fmt.Fprintln(p) // progress only.
	}
	p.open = false
}
