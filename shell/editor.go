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
// Ctrl-C is a character while a line is read, and SIGINT while a statement runs: it then cancels the statement's ctx.
// ctx is not used for that, since it may end at the first SIGINT of the process.
func (s *shell) interact(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A SIGINT between two statements must not end the process.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)
	if _, err := fmt.Fprintf(s.cfg.Out, "Connected to %s. Enter \".help\" for usage hints.\n", s.cfg.URL); err != nil {
		return err
	}
	line := liner.NewLiner()
	line.SetCtrlCAborts(true)
	s.loadHistory(line)
	err := s.converse(ctx, line)
	s.saveHistory(line)
	return errors.Join(err, line.Close())
}

// converse reads and runs lines.
func (s *shell) converse(ctx context.Context, line *liner.State) error {
	from := &input{}
	for ctx.Err() == nil {
		prompt := firstPrompt
		if from.split.Pending() {
			prompt = continuePrompt
		}
		text, err := readLine(ctx, func() (string, error) { return line.Prompt(prompt) })
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
	}
	return nil
}

// takeTyped is take for a line of a person, who may interrupt it.
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

// loadHistory reads the history file. A file that cannot be read is not written either, and neither is anything else,
// such as /dev/null.
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

// warn tells of a problem that is no error of a statement.
func (s *shell) warn(what string, err error) {
	_, _ = fmt.Fprintf(s.cfg.Err, "Warning: %s: %s\n", what, escape(err.Error(), unsafe)) // there is no other place to say it.
}
