package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// tailLines is how much of a dead worker's output is logged: a panic's message and its first frames.
const tailLines = 20

// Kill implements launch.Launcher. ErrUnavailable: the worker may or may not be dead.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	c, err := l.find(ctx, id)
	if err != nil {
		return err
	}
	return l.kill(ctx, c)
}

// kill ends a container and returns once it is confirmed dead.
func (l *Launcher) kill(ctx context.Context, c Container) error {
	const what = "kill worker"
	first := l.markStopping(identity(c))
	err := l.engine.Signal(ctx, c.ID, "SIGKILL")
	if err != nil && !errors.Is(err, errConflict) { // conflict: it does not run
		if first {
			l.unmarkStopping(identity(c)) // a later Stop must ask it to finish
		}
		return gone(what, err)
	}
	if err := l.engine.Wait(ctx, c.ID); err != nil && !errors.Is(err, errNotFound) {
		return launch.Unavailable(what, err)
	}
	return nil
}

// Stop implements launch.Launcher. A Launcher asks a worker only once: a second SIGTERM would end it immediately. A
// paused worker is not asked, because the engine would wake it and it might write: it is killed when grace is over.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	const what = "stop worker"
	found, err := l.find(ctx, id)
	if err != nil {
		return err
	}
	c, err := l.engine.Inspect(ctx, found.ID)
	if err != nil {
		return gone(what, err)
	}
	if !c.running() {
		return nil
	}
	if first := l.markStopping(id); first && c.Status != statusPaused {
		if err = l.engine.Signal(ctx, c.ID, "SIGTERM"); err != nil && !errors.Is(err, errConflict) {
			l.unmarkStopping(id)
			return gone(what, err)
		}
	}
	graceful, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err = l.engine.Wait(graceful, c.ID)
	switch {
	case err == nil, errors.Is(err, errNotFound):
		return nil
	case ctx.Err() == nil && graceful.Err() != nil:
		return l.kill(ctx, c)
	default:
		return launch.Unavailable(what, err)
	}
}

// markStopping notes that a worker was asked to end, and reports whether this is the first time.
func (l *Launcher) markStopping(id dbaas.WorkerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.asked[id]
	l.asked[id] = true
	return first
}

func (l *Launcher) unmarkStopping(id dbaas.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asked, id)
}

// Remove implements launch.Launcher. It also records the worker's end, because the output is removed together with the
// container.
func (l *Launcher) Remove(ctx context.Context, id dbaas.WorkerID) error {
	found, err := l.find(ctx, id)
	if errors.Is(err, launch.ErrNoWorker) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.remove(ctx, found.ID)
}

// remove removes an ended container, and records its worker's end.
func (l *Launcher) remove(ctx context.Context, container string) error {
	const what = "remove worker"
	c, err := l.engine.Inspect(ctx, container)
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case err != nil:
		return launch.Unavailable(what, err)
	case c.running():
		return fmt.Errorf("remove worker %s: it runs", identity(c))
	}
	l.record(ctx, c)
	if err := l.engine.Remove(ctx, c.ID); err != nil && !errors.Is(err, errNotFound) {
		return launch.Unavailable(what, err)
	}
	l.unmarkStopping(identity(c))
	return nil
}

// Clear kills and removes every worker of the stack, also one that List leaves out because it is about to be started. No
// other launcher may use the stack. ErrUnavailable: some may be left.
func (l *Launcher) Clear(ctx context.Context) error {
	found, err := l.engine.List(ctx, l.stack())
	if err != nil {
		return launch.Unavailable("list workers", err)
	}
	errs := make([]error, len(found))
	var group sync.WaitGroup
	for n, c := range found {
		group.Go(func() {
			if errs[n] = l.kill(ctx, c); errs[n] == nil || errors.Is(errs[n], launch.ErrNoWorker) {
				errs[n] = l.remove(ctx, c.ID)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// record logs a worker's end once, with its last output unless the end was requested.
func (l *Launcher) record(ctx context.Context, c Container) {
	id := identity(c)
	log := l.log.With(logkey.Worker, string(id), "container", c.Name, logkey.Code, c.ExitCode)
	l.mu.Lock()
	asked, again := l.asked[id], l.recorded[c.ID]
	l.recorded[c.ID] = true
	l.mu.Unlock()
	if again {
		return
	}
	if asked || c.ExitCode == 0 {
		log.InfoContext(ctx, "container ended")
		return
	}
	words, err := l.engine.Tail(ctx, c.ID, tailLines)
	if err != nil {
		words = "its output could not be read: " + err.Error()
	}
	log.WarnContext(ctx, "container died", logkey.Reason, words)
}

// find returns the container of a worker, with its id and labels.
func (l *Launcher) find(ctx context.Context, id dbaas.WorkerID) (Container, error) {
	list, err := l.engine.List(ctx, l.stack())
	if err != nil {
		return Container{}, launch.Unavailable("find worker", err)
	}
	for _, c := range list {
		if identity(c) == id {
			return c, nil
		}
	}
	return Container{}, fmt.Errorf("worker %s: %w", id, launch.ErrNoWorker)
}
