package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"rideshare/orchestrator/launch"
)

// abandonedAfter is the age at which a container that was created but never started counts as dead. A start takes far
// less, so its creator must have been killed in between.
const abandonedAfter = time.Minute

// inspectLimit bounds each Inspect call of List. The engine does not answer it while it starts or cleans up the
// container, and may never answer again. The states of the other workers must not wait for that.
const inspectLimit = 500 * time.Millisecond

// List implements launch.Launcher. A container that was created and is about to be started is not listed, so that it is
// not removed as dead. A container that was not started within abandonedAfter is listed as dead, so that the control
// loop removes it.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	found, err := l.engine.List(ctx, l.stack())
	if err != nil {
		return nil, launch.Unavailable("list workers", err)
	}
	l.forget(found)
	found = slices.DeleteFunc(found, l.aboutToStart)
	there := make([]bool, len(found))
	var group sync.WaitGroup
	for n := range found {
		group.Go(func() { found[n], there[n] = l.complete(ctx, found[n]) })
	}
	group.Wait()
	list := make([]launch.Instance, 0, len(found))
	for n, c := range found {
		if there[n] {
			list = append(list, describe(c))
		}
	}
	slices.SortFunc(list, launch.Order)
	return list, nil
}

// complete adds to a container of the engine's list what only Inspect returns, such as the pid; that takes a
// millisecond. If the engine does not answer in time, complete uses the last result of Inspect for that container;
// without one the pid is zero. It reports false if the container has been removed in the meantime.
func (l *Launcher) complete(ctx context.Context, listed Container) (Container, bool) {
	if dead, ok := l.reportedDead(listed); ok {
		return dead, true
	}
	if listed.Status == statusCreated { // has no pid
		return listed, true
	}
	ctx, cancel := context.WithTimeout(ctx, l.inspectLimit)
	defer cancel()
	c, err := l.engine.Inspect(ctx, listed.ID)
	if errors.Is(err, errNotFound) {
		return c, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.seen[c.ID] = c
		return c, true
	}
	last := l.seen[listed.ID]
	listed.PID, listed.ExitCode, listed.StartedAt = last.PID, last.ExitCode, last.StartedAt
	return listed, true
}

// reportedDead returns a container whose death the engine has reported in an event. After a death the engine answers no
// Inspect until it has cleaned up, which takes some 200 ms; until then its list shows the container as running.
func (l *Launcher) reportedDead(c Container) (Container, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, ok := l.dead[c.ID]
	c.Status, c.ExitCode = statusExited, code
	return c, ok
}

// forget drops what is known of containers that are no longer in the engine's list: ids are never reused.
func (l *Launcher) forget(found []Container) {
	gone := func(id string) bool { return !slices.ContainsFunc(found, func(c Container) bool { return c.ID == id }) }
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.dead, func(id string, _ int) bool { return gone(id) })
	maps.DeleteFunc(l.seen, func(id string, _ Container) bool { return gone(id) })
	maps.DeleteFunc(l.recorded, func(id string, _ bool) bool { return gone(id) })
}

func (l *Launcher) aboutToStart(c Container) bool {
	if c.Status != statusCreated {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starting[c.Labels[labelStart]] != nil || time.Since(c.CreatedAt) < abandonedAfter
}
