// Package shell is the interactive SQL shell. It is a client of the orchestrator's HTTP API and knows nothing else of
// the system. See docs/SHELL.md.
package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"rideshare/internal/sqltext"
)

// Config is the settings of a shell. URL, Transport, Transfers, Mode, In, Out and Err are required.
type Config struct {
	// URL is the orchestrator's base URL, without a trailing slash.
	URL string
	// Transport sends the requests, within the time limits of Limit. Transfers sends those of .backup, .dump and .load, within
	// the time limits of LimitTransfers.
	Transport, Transfers http.RoundTripper
	// Authorization is the value of the Authorization header; "" sends none.
	Authorization string
	// Mode is one of Modes.
	Mode string
	// Bail ends a shell that is not interactive at the first error.
	Bail bool
	// Command, if not nil, is run instead of In.
	Command *string
	// In are the statements. If In and Out are terminals, the shell is interactive.
	In io.Reader
	// Out takes results, Err takes errors, prefixed with the line of the statement if the shell is not interactive.
	Out, Err io.Writer
	// History is the file of the lines that were typed; "" for none.
	History string
}

// shell is the state that the dot commands change.
type shell struct {
	cfg       Config
	http      *http.Client
	transfers *http.Client
	mode      string
	level     string
	timer     bool
	// interactive: lines come from a person, and an error does not count.
	interactive bool
	failed      int // statements and commands
	nested      int // files of .read that are open
}

// Errors that end the reading of lines.
var (
	errQuit        = errors.New("quit")
	errBail        = errors.New("bail")
	errInterrupted = errors.New("interrupted")
)

// Limit sets the time limits of a transport for statements.
func Limit(t *http.Transport) {
	t.ResponseHeaderTimeout, t.ExpectContinueTimeout = answerTimeout, continueTimeout
}

// LimitTransfers sets the time limits of a transport for backups and loads, which may take longer than a statement. The
// shell and Backup limit the silence of the server.
func LimitTransfers(t *http.Transport) { t.ExpectContinueTimeout = continueTimeout }

// Run runs a shell until its input or ctx ends. It returns an error if there is no orchestrator, or, unless the shell is
// interactive, if statements failed; their errors are then also printed to cfg.Err.
func Run(ctx context.Context, cfg Config) error {
	s := &shell{cfg: cfg, mode: cfg.Mode, level: levels[0], http: transfersOf(cfg.Transport), transfers: transfersOf(cfg.Transfers)}
	s.interactive = cfg.Command == nil && isTerminal(cfg.In) && isTerminal(cfg.Out)
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.interactive {
		return s.interact(ctx)
	}
	in := cfg.In
	if cfg.Command != nil {
		in = strings.NewReader(*cfg.Command)
	}
	if err := s.script(ctx, "", in); err != nil && !errors.Is(err, errQuit) && !errors.Is(err, errBail) {
		return err
	}
	if s.failed > 0 {
		return fmt.Errorf("%d of the statements and commands failed", s.failed)
	}
	return nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// input is where lines come from.
type input struct {
	file  string // "" for the shell's own input
	line  int
	split sqltext.Splitter
}

// script runs the lines of in. file is the name of in, "" if it is not a file. The error is the one that ended the script
// early, or an error of reading in.
func (s *shell) script(ctx context.Context, file string, in io.Reader) error {
	from, lines := &input{file: file}, bufio.NewReader(in)
	for {
		text, err := readLine(ctx, nil, nil, func() (string, error) { return lines.ReadString('\n') })
		if text != "" {
			if stop := s.take(ctx, from, text); stop != nil {
				return stop
			}
		}
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case errors.Is(err, io.EOF):
			if st, ok := from.split.Rest(); ok {
				return s.step(ctx, from, st, s.run)
			}
			return nil
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		}
	}
}

// readLine reads a line with read and calls drop for each signal that arrives before the line. If ctx ends first,
// readLine returns ctx.Err(); read may go on, but its line is dropped.
func readLine(ctx context.Context, signals <-chan os.Signal, drop func(), read func() (string, error)) (string, error) {
	var text string
	done := make(chan error, 1)
	go func() {
		var err error
		text, err = read()
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return text, err
		case <-signals:
			drop()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// take runs the next line: a dot command, or the statements that end in the line. It returns an error only if no further
// line is to be read.
func (s *shell) take(ctx context.Context, from *input, text string) error {
	from.line++
	if line := strings.TrimSpace(text); strings.HasPrefix(line, ".") && !from.split.Pending() {
		return s.step(ctx, from, sqltext.Statement{SQL: line, Line: from.line}, s.command)
	}
	for st := range from.split.Feed(text, from.line) {
		if err := s.step(ctx, from, st, s.run); err != nil {
			return err
		}
	}
	return nil
}

// step runs one statement or command and reports its error. It returns an error only if no further line is to be read.
func (s *shell) step(ctx context.Context, from *input, st sqltext.Statement, run func(context.Context, *bufio.Writer, string) error) error {
	out := bufio.NewWriter(&untilDone{ctx, s.cfg.Out})
	err := run(ctx, out, st.SQL)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	switch {
	case ctx.Err() != nil && err != nil && !errors.Is(err, errInterrupted):
		return fmt.Errorf("%w; %w", errInterrupted, errUnknown)
	case err == nil, errors.Is(err, errInterrupted), errors.Is(err, errQuit), errors.Is(err, errBail):
		return err
	}
	s.failed++
	s.report(from, st.Line, err)
	if s.cfg.Bail && !s.interactive {
		return errBail
	}
	return nil
}

// report prints an error, with its place if it comes from a file or a pipe.
func (s *shell) report(from *input, line int, err error) {
	where := ""
	if from.file != "" {
		where = " in " + from.file
	}
	if !s.interactive || from.file != "" {
		where += fmt.Sprintf(" near line %d", line)
	}
	_, _ = fmt.Fprintf(s.cfg.Err, "Error%s: %s\n", where, escape(err.Error(), unsafe)) // there is no other place to say it.
}

// run runs a statement and shows its result, and how long it took.
func (s *shell) run(ctx context.Context, out *bufio.Writer, sql string) error {
	start := time.Now()
	r, err := s.ask(ctx, sql)
	if err == nil {
		err = s.show(out, r)
	}
	if s.timer {
		_, timed := fmt.Fprintf(out, "Run Time: real %.3f\n", time.Since(start).Seconds())
		err = errors.Join(err, timed)
	}
	return err
}

// show shows a result. The number of changed rows is shown only in an interactive shell.
func (s *shell) show(out *bufio.Writer, r *result) error {
	if r.RowsAffected > 0 && len(r.Columns) == 0 && s.interactive {
		rows := "rows"
		if r.RowsAffected == 1 {
			rows = "row"
		}
		_, err := fmt.Fprintf(out, "%d %s affected\n", r.RowsAffected, rows)
		return err
	}
	v := view{mode: s.mode}
	if file, ok := s.cfg.Out.(*os.File); ok && isTerminal(file) {
		v.terminal = true
		v.width, _, _ = term.GetSize(int(file.Fd())) // an unknown width is 0.
	}
	return render(out, v, r)
}

// untilDone is a writer that fails when ctx is done, so that Ctrl-C ends a long answer.
type untilDone struct {
	ctx context.Context
	out io.Writer
}

func (w *untilDone) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.out.Write(p)
}
