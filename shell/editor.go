package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/peterh/liner"

	"rideshare/internal/sqltext"
)

const (
	firstPrompt    = "rideshare> "
	continuePrompt = "   ...> "
	// longestKept is the length in bytes of the longest line in the history: the library cannot read files with longer lines.
	longestKept = 4000
	historyMode = 0o600
)

// interact reads lines from the terminal until Ctrl-D, .quit, SIGTERM or SIGHUP.
//
// Ctrl-C is a character while the editor reads a line, and a SIGINT otherwise. While a statement runs, the SIGINT cancels
// the statement's own context. interact ignores the end of ctx, since ctx may end at the first SIGINT of the process.
func (s *shell) interact(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A SIGINT must not end the process.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	if _, err := fmt.Fprintf(s.cfg.Out, "Connected to %s. Enter \".help\" for usage hints.\n", s.cfg.URL); err != nil {
		return err
	}
	line := liner.NewLiner()
	line.SetCtrlCAborts(true)
	s.loadHistory(line)
	err := s.converse(ctx, line, interrupts)
	s.saveHistory(line)
	return errors.Join(err, line.Close())
}

// converse reads and runs lines. interrupts delivers the SIGINTs of the process.
func (s *shell) converse(ctx context.Context, line *liner.State, interrupts <-chan os.Signal) error {
	from := &input{}
	for ctx.Err() == nil {
		prompt := firstPrompt
		if from.split.Pending() {
			prompt = continuePrompt
		}
		// On a terminal that the editor does not support (TERM=dumb, few columns) Ctrl-C sends SIGINT, and the terminal drops
		// the line. The editor still waits for the next line, so the shell shows the prompt.
		text, err := readLine(ctx, interrupts, func() {
			from.split = sqltext.Splitter{}
			_, _ = fmt.Fprint(s.cfg.Out, "\n"+firstPrompt) // the next write fails too.
		}, func() (string, error) { return line.Prompt(prompt) })
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			from.split = sqltext.Splitter{}
			continue
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			_, err = fmt.Fprintln(s.cfg.Out)
			return err
		case err != nil:
			return fmt.Errorf("read from the terminal: %w", err)
		}
		if strings.TrimSpace(text) != "" && len(text) <= longestKept {
			line.AppendHistory(text)
		}
		if err = s.takeTyped(ctx, from, text+"\n"); errors.Is(err, errQuit) {
			return nil
		}
		select {
		case <-interrupts: // the statement got it
		default:
		}
	}
	return nil
}

// takeTyped is take for a typed line: Ctrl-C interrupts the line.
func (s *shell) takeTyped(ctx context.Context, from *input, text string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	err := s.take(ctx, from, text)
	if errors.Is(err, errInterrupted) {
		from.split = sqltext.Splitter{}
		s.report(from, from.line, err)
	}
	return err
}

// loadHistory reads the history file. If the file cannot be read, or is not a regular file (such as /dev/null),
// saveHistory does not write it either.
func (s *shell) loadHistory(line *liner.State) {
	info, err := os.Stat(s.cfg.History)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && !info.Mode().IsRegular() {
		s.cfg.History = ""
		return
	}
	f, err := os.Open(s.cfg.History)
	if err == nil {
		_, read := line.ReadHistory(f)
		err = errors.Join(read, f.Close())
	}
	if err != nil {
		s.warn("the history cannot be read and is left as it is", err)
		s.cfg.History = ""
	}
}

// saveHistory writes the history file, which only its owner may read.
func (s *shell) saveHistory(line *liner.State) {
	if s.cfg.History == "" {
		return
	}
	f, err := os.OpenFile(s.cfg.History, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, historyMode)
	if err == nil {
		err = f.Chmod(historyMode) // of a file that was there
		_, wrote := line.WriteHistory(f)
		err = errors.Join(err, wrote, f.Close())
	}
	if err != nil {
		s.warn("the history cannot be written", err)
	}
}

// warn prints a problem that is not the error of a statement.
func (s *shell) warn(what string, err error) {
	_, _ = fmt.Fprintf(s.cfg.Err, "Warning: %s: %s\n", what, escape(err.Error(), unsafe)) // there is no other place to say it.
}
