package docker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"rideshare/orchestrator/launch"
)

// abandonedAfter is when a container that was made and never started is taken for dead. A start is over
// long before, so whoever made it was killed in between.
const abandonedAfter = time.Minute

// List implements launch.Launcher. A container that is made and about to be started
// is not listed, lest it be removed as dead; one that nobody started in time is, as dead, and so
// is removed by whoever keeps the workers as they should be.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	const what = "list workers"
	found, err := l.engine.List(ctx, label(labelStack, l.config.Stack))
	if err != nil {
		return nil, unavailable(what, err)
	}
	all := make([]Container, len(found))
	errs := make([]error, len(found))
	var group sync.WaitGroup
	for n := range found { // pids are only in the answer for a single one; each takes a millisecond
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
		case errors.Is(errs[n], errNotFound): // removed meanwhile
		case errs[n] != nil:
			return nil, unavailable(what, errs[n])
		case !l.aboutToStart(c):
			list = append(list, describe(c))
		}
	}
	slices.SortFunc(list, func(a, b launch.Instance) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// toldDead returns a container of which the engine told that it died. The engine answers nobody who inspects
// one until it has cleared up after it, which takes it some 200 ms, and its list says until then that it runs.
func (l *Launcher) toldDead(c Container) (Container, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, ok := l.dead[c.ID]
	c.Status, c.ExitCode = statusExited, code
	return c, ok
}

// forgetDead forgets who is no longer in the engine's list: ids are never used again.
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
