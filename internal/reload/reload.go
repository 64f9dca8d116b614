// Package reload applies changed files to a running process.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rideshare/internal/logkey"
)

const (
	// period is how often the files are read. A change is applied when two readings in a row agree, so that a file that
	// is being written is not taken for complete.
	period = time.Second
	// maxBytes bounds each file in memory.
	maxBytes = 4 << 20
)

// Watcher follows files whose contents belong together, such as a certificate and its key. It compares contents, not
// times, so that replaced links and quick edits count too.
type Watcher struct {
	// What names the files in logs and metrics.
	What  string
	Paths []string
	// Apply gets the contents in the order of Paths. After an error it must have changed nothing.
	Apply func(contents [][]byte) error

	known state // the state that was last applied or refused
	last  state // the state at the last reading
}

// state identifies the contents of the files, or the error of reading them.
type state [sha256.Size]byte

// Load reads the files and applies them.
func (w *Watcher) Load() error {
	contents, now, err := w.read()
	if err == nil {
		err = w.Apply(contents)
	}
	if err != nil {
		return err
	}
	w.known, w.last = now, now
	return nil
}

// Run applies changed files until ctx ends: within three seconds, and immediately at SIGHUP. It reports each attempt to
// observe. Files that cannot be read or applied change nothing; each such state is logged once. While Run runs, SIGHUP
// does not end the process. Load must have succeeded.
func (w *Watcher) Run(ctx context.Context, log *slog.Logger, observe func(what string, err error)) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			w.look(true, log, observe)
		case <-tick.C:
			w.look(false, log, observe)
		}
	}
}

// look reads the files once, and applies them if they have changed and are the same as at the last reading, or if force
// is set.
func (w *Watcher) look(force bool, log *slog.Logger, observe func(what string, err error)) {
	contents, now, err := w.read()
	settled := now == w.last
	w.last = now
	if !force && (now == w.known || !settled) {
		return
	}
	w.known = now
	if err == nil {
		err = w.Apply(contents)
	}
	observe(w.What, err)
	if err != nil {
		log.Error("changed files refused, the contents before stay in force", logkey.Files, w.What, logkey.Error, err.Error())
	} else {
		log.Info("changed files are in force", logkey.Files, w.What)
	}
}

func (w *Watcher) read() ([][]byte, state, error) {
	all := make([][]byte, 0, len(w.Paths))
	hash := sha256.New()
	for _, path := range w.Paths {
		text, err := readFile(path)
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		_, _ = fmt.Fprintf(hash, "%d\n", len(text)) // a hash never fails
		_, _ = hash.Write(text)
		all = append(all, text)
	}
	return all, state(hash.Sum(nil)), nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's choice
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxBytes)
	}
	return text, err
}
