package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// errClosed is what a start gets after Close.
var errClosed = errors.New("launcher is closed")

// worker is one life of a worker, from the start that was asked for to its removal.
type worker struct {
	asked atomic.Bool // to end
	ready chan struct{}

	// Set before ready is closed. A worker with err was never started and is forgotten.
	spec Spec
	life *life
	err  error
}

// Start implements launch.Launcher. ErrUnavailable: ctx ended first, and the worker is
// started all the same unless the next Start, or List, says otherwise. Other errors mean that none was
// started and nothing is left of it; they name the binary that does not run.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if err := ctx.Err(); err != nil {
		return launch.Instance{}, unavailable("start worker", err)
	}
	w, err := l.worker(startID)
	if err != nil {
		return launch.Instance{}, fmt.Errorf("start worker: %w", err)
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		return launch.Instance{}, unavailable("start worker", ctx.Err())
	}
	if w.err != nil {
		return launch.Instance{}, fmt.Errorf("start worker: %w", w.err)
	}
	return w.describe(), nil
}

// worker returns the worker of a start, which it begins if it is the first.
func (l *Launcher) worker(startID string) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, errClosed
	}
	for _, w := range l.workers {
		if w.spec.StartID == startID {
			return w, nil
		}
	}
	l.started++
	id := dbaas.WorkerID(fmt.Sprintf("%s-%04d", l.name, l.started))
	w := &worker{
		spec:  Spec{ID: id, StartID: startID, Dir: filepath.Join(l.config.Dir, string(id))},
		ready: make(chan struct{}),
	}
	l.workers[id] = w
	l.running.Go(func() { l.live(w) })
	return w, nil
}

// live is the whole life of a worker.
func (l *Launcher) live(w *worker) {
	w.life, w.spec.Control, w.err = l.begin(w.spec)
	l.mu.Lock()
	switch {
	case w.err != nil:
		delete(l.workers, w.spec.ID)
	case l.closing: // Close could not kill what had not begun
		_ = w.kill() // a child of ours can be signalled
	}
	close(w.ready)
	l.mu.Unlock()
	if w.err != nil {
		return
	}
	log := l.config.Log.With(logkey.Worker, string(w.spec.ID), logkey.PID, w.life.pid())
	l.notify() // first: a log may block
	log.Info("process started", logkey.Addr, w.spec.Control)
	<-w.life.ended
	l.notify()
	logEnd(log, w.life, w.asked.Load())
}

// begin starts the process of a worker and returns where its control API is. An error means that
// nothing is left of it.
func (l *Launcher) begin(s Spec) (e *life, control string, err error) {
	// The port is bound before the start and handed over: it is known at once, nobody else can
	// have it, and what connects before the worker serves waits.
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = listener.Close() }() // now the worker's alone: it refuses connections when that is dead
	s.Control = urlOf(listener)
	if err = os.MkdirAll(s.Dir, 0o750); err != nil {
		return nil, "", fmt.Errorf("make directory: %w", err)
	}
	e, err = begin(program{
		binary: l.config.Binary, args: l.config.Args(s), env: l.config.Env,
		listener: listener, stdout: l.stdout, stderr: l.stderr,
	})
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(s.Dir))
	}
	return e, s.Control, nil
}

// begun tells whether the start is over, and was one.
func (w *worker) begun() bool {
	select {
	case <-w.ready:
		return w.err == nil
	default:
		return false
	}
}

// kill asks for the end of a worker that has begun.
func (w *worker) kill() error {
	if w.life.over() {
		return nil
	}
	w.asked.Store(true)
	return w.life.kill()
}

func (w *worker) describe() launch.Instance {
	i := launch.Instance{
		ID: w.spec.ID, StartID: w.spec.StartID, Control: w.spec.Control, StartedAt: w.life.startedAt,
	}
	if w.life.over() {
		i.ExitCode = w.life.exitCode
	} else {
		i.Running, i.PID = true, w.life.pid()
	}
	return i
}

// logEnd tells of the end of a child, with its last words unless the end was wanted.
func logEnd(log *slog.Logger, e *life, asked bool) {
	if asked || e.exitCode == 0 {
		log.Info("process ended", logkey.Code, e.exitCode)
		return
	}
	log.Warn("process died", logkey.Code, e.exitCode, logkey.Reason, e.words())
}
