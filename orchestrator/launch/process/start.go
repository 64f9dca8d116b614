package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// errClosed is returned by a start after Close.
var errClosed = errors.New("launcher is closed")

// worker is one life of a worker, from the request to start it until its removal.
type worker struct {
	asked atomic.Bool // Stop or Kill has requested the end
	ready chan struct{}

	// Set before ready is closed. A worker with err set was never started and is dropped.
	spec Spec
	life *life
	err  error
}

// Start implements launch.Launcher. ErrUnavailable: ctx ended first; the worker still starts unless the next Start or
// List reports otherwise. Any other error means that no worker was started and nothing is left behind; it names the
// binary that cannot be run.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if err := ctx.Err(); err != nil {
		return launch.Instance{}, launch.Unavailable("start worker", err)
	}
	w, err := l.worker(startID)
	if err != nil {
		return launch.Instance{}, fmt.Errorf("start worker: %w", err)
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		return launch.Instance{}, launch.Unavailable("start worker", ctx.Err())
	}
	if w.err != nil {
		return launch.Instance{}, fmt.Errorf("start worker: %w", w.err)
	}
	return w.describe(), nil
}

// worker returns the worker of startID. The first call for a startID begins its start.
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

// live runs through the whole life of a worker.
func (l *Launcher) live(w *worker) {
	w.life, w.spec.Control, w.err = l.begin(w.spec)
	l.mu.Lock()
	switch {
	case w.err != nil:
		delete(l.workers, w.spec.ID)
	case l.closing: // Close could not kill a worker that had not begun
		_ = w.kill() // a child of this process can always be signalled
	}
	close(w.ready)
	l.mu.Unlock()
	if w.err != nil {
		return
	}
	log := l.config.Log.With(logkey.Worker, string(w.spec.ID), logkey.PID, w.life.pid())
	l.events.Give() // before the log, which may block
	log.Info("process started", logkey.Addr, w.spec.Control)
	<-w.life.ended
	l.events.Give()
	logEnd(log, w.life, w.asked.Load())
}

// begin starts the process of a worker and returns the URL of its control API. After an error nothing is left behind.
func (l *Launcher) begin(s Spec) (e *life, control string, err error) {
	// The port is bound before the start and handed over to the child. So it is known immediately, no other process can
	// take it, and connections made before the worker serves wait in the listener.
	listener, err := listen(net.JoinHostPort(l.config.Address, "0"))
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = listener.Close() }() // then only the worker has the listener: connections are refused once it is dead
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, "", fmt.Errorf("listener's address: %w", err)
	}
	s.Control = urlOf(l.config.Scheme, net.JoinHostPort(l.config.Address, port))
	if err = os.MkdirAll(s.Dir, 0o750); err != nil {
		return nil, "", fmt.Errorf("make directory: %w", err)
	}
	e, err = begin(program{
		binary: l.config.Binary, args: l.config.Args(s), env: l.config.Env,
		listener: listener, stdout: l.stdout, stderr: l.stderr, drainLimit: l.config.drainLimit,
	})
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(s.Dir))
	}
	return e, s.Control, nil
}

// begun reports whether the start has finished successfully.
func (w *worker) begun() bool {
	select {
	case <-w.ready:
		return w.err == nil
	default:
		return false
	}
}

// kill requests the end of a worker that has begun.
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

// logEnd logs the end of a child, with its last output unless the end was requested.
func logEnd(log *slog.Logger, e *life, asked bool) {
	if asked || e.exitCode == 0 {
		log.Info("process ended", logkey.Code, e.exitCode)
		return
	}
	log.Warn("process died", logkey.Code, e.exitCode, logkey.Reason, e.words())
}
