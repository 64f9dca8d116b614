package process

import (
	"cmp"
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

// Kill implements launch.Launcher. ErrUnavailable: ctx ended before the process was
// surely dead; it has its signal by then.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	w, err := l.find(id)
	if err != nil {
		return err
	}
	if err := w.kill(); err != nil {
		return unavailable("kill worker", err)
	}
	if err := w.life.wait(ctx); err != nil {
		return unavailable("kill worker", err)
	}
	return nil
}

// Stop implements launch.Launcher. A worker is asked once: however often Stop is called, it
// gets one SIGTERM. One that is paused is not woken, and killed when grace is over.
// ErrUnavailable: ctx ended first; the worker may yet finish by itself.
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
		return unavailable("stop worker", err)
	}
	return nil
}

// Remove implements launch.Launcher. It deletes the worker's directory, bit by bit after it returned: the
// fsyncs of persdb and the broker would wait for a large replica's blocks to be freed. What an end of this process
// leaves of it is deleted by the next launcher.
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
	if l.closing { // nobody waits for more to end; the next launcher deletes it.
		return nil
	}
	l.running.Go(func() {
		if err := bigfile.RemoveAll(l.inNoHurry, w.spec.Dir); err != nil {
			l.config.Log.Warn("directory of a dead worker not deleted", logkey.Worker, string(id), logkey.Error, err)
		}
	})
	return nil
}

// List implements launch.Launcher. Starts under way are waited for, which takes
// milliseconds, so that what is not listed surely does not run. ErrUnavailable: ctx ended first.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	l.mu.Lock()
	workers := slices.Collect(maps.Values(l.workers))
	l.mu.Unlock()
	list := make([]launch.Instance, 0, len(workers))
	for _, w := range workers {
		select {
		case <-w.ready:
		case <-ctx.Done():
			return nil, unavailable("list workers", ctx.Err())
		}
		if w.err == nil {
			list = append(list, w.describe())
		}
	}
	slices.SortFunc(list, func(a, b launch.Instance) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// find returns a worker that has begun. Nobody knows the id of one that has not.
func (l *Launcher) find(id dbaas.WorkerID) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[id]
	if w == nil || !w.begun() {
		return nil, fmt.Errorf("worker %s: %w", id, launch.ErrNoWorker)
	}
	return w, nil
}
