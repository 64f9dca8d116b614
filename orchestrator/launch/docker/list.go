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

// List implements launch.Launcher. A container that was created and is about to be started is not listed, so that it is
// not removed as dead. A container that was not started within abandonedAfter is listed as dead, so that the control
// loop removes it.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	const what = "list workers"
	found, err := l.engine.List(ctx, label(labelStack, l.config.Stack))
	if err != nil {
		return nil, launch.Unavailable(what, err)
	}
	all := make([]Container, len(found))
	errs := make([]error, len(found))
	var group sync.WaitGroup
	for n := range found { // only Inspect returns pids; each call takes a millisecond
		if dead, ok := l.toldDead(found[n]); ok {
			all[n] = dead
			continue
		}
		group.Go(func() { all[n], errs[n] = l.engine.Inspect(ctx, found[n].ID) })
	}
	group.Wait()
	l.forgetDead(found)
	list := make([]launch.Instance, 0, len(all))
	for n, c := range all {
		switch {
		case errors.Is(errs[n], errNotFound): // removed in the meantime
		case errs[n] != nil:
			return nil, launch.Unavailable(what, errs[n])
		case !l.aboutToStart(c):
			list = append(list, describe(c))
		}
	}
	slices.SortFunc(list, launch.Order)
	return list, nil
}

// toldDead returns a container whose death the engine has reported in an event. After a death the engine answers no
// Inspect until it has cleaned up, which takes some 200 ms; until then its list shows the container as running.
func (l *Launcher) toldDead(c Container) (Container, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, ok := l.dead[c.ID]
	c.Status, c.ExitCode = statusExited, code
	return c, ok
}

// forgetDead drops the entries of containers that are no longer in the engine's list: ids are never reused.
func (l *Launcher) forgetDead(found []Container) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.dead, func(id string, _ int) bool {
		return !slices.ContainsFunc(found, func(c Container) bool { return c.ID == id })
	})
}

func (l *Launcher) aboutToStart(c Container) bool {
	if c.Status != statusCreated {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starting[c.Labels[labelStart]] != nil || time.Since(c.CreatedAt) < abandonedAfter
}
