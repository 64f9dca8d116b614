package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"rideshare/internal/bigfile"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// Kill implements launch.Launcher. ErrUnavailable: ctx ended before the process was confirmed dead; SIGKILL has been
// sent by then.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	w, err := l.find(id)
	if err != nil {
		return err
	}
	if err := w.kill(); err != nil {
		return launch.Unavailable("kill worker", err)
	}
	if err := w.life.wait(ctx); err != nil {
		return launch.Unavailable("kill worker", err)
	}
	return nil
}

// Stop implements launch.Launcher. A worker gets only one SIGTERM, however often Stop is called. A paused worker is not
// woken; it is killed when grace is over. ErrUnavailable: ctx ended first; the worker may still finish by itself.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	w, err := l.find(id)
	if err != nil {
		return err
	}
	if w.life.over() {
		return nil
	}
	w.asked.Store(true)
	if err := w.life.stop(ctx, grace); err != nil {
		return launch.Unavailable("stop worker", err)
	}
	return nil
}

// Remove implements launch.Launcher. It deletes the worker's directory gradually after it has returned: otherwise the
// fsyncs of persdb and the broker would wait while a large replica's blocks are freed. If this process ends first, the
// next launcher deletes the rest.
func (l *Launcher) Remove(_ context.Context, id dbaas.WorkerID) error {
	w, err := l.find(id)
	if errors.Is(err, launch.ErrNoWorker) {
		return nil
	}
	if !w.life.over() {
		return fmt.Errorf("remove worker %s: it runs", id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, id)
	if l.closing { // Close does not wait for further removals; the next launcher deletes the directory
		return nil
	}
	l.running.Go(func() {
		if err := bigfile.RemoveAll(l.inNoHurry, w.spec.Dir); err != nil {
			l.config.Log.Warn("directory of a dead worker not deleted", logkey.Worker, string(id), logkey.Error, err)
		}
	})
	return nil
}

// List implements launch.Launcher. It waits for starts under way, which take milliseconds, so a worker that is not
// listed certainly does not run. ErrUnavailable: ctx ended first.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	l.mu.Lock()
	workers := slices.Collect(maps.Values(l.workers))
	l.mu.Unlock()
	list := make([]launch.Instance, 0, len(workers))
	for _, w := range workers {
		select {
		case <-w.ready:
		case <-ctx.Done():
			return nil, launch.Unavailable("list workers", ctx.Err())
		}
		if w.err == nil {
			list = append(list, w.describe())
		}
	}
	slices.SortFunc(list, launch.Order)
	return list, nil
}

// find returns a worker that has begun. Until a worker has begun, no caller knows its id.
func (l *Launcher) find(id dbaas.WorkerID) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[id]
	if w == nil || !w.begun() {
		return nil, fmt.Errorf("worker %s: %w", id, launch.ErrNoWorker)
	}
	return w, nil
}
