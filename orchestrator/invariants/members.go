package invariants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

const (
	// openTimeout bounds one attempt to reach the coordinator.
	openTimeout = 3 * time.Second
	// askTimeout bounds a request that a worker answers from memory.
	askTimeout = 2 * time.Second
)

// census lists the workers according to each source.
type census struct {
	running    []launch.Instance // according to the launcher
	registered []coord.Member    // according to the coordinator
	wanted     int               // number of slaves
	answers    map[dbaas.WorkerID]answer
}

// answer is a running worker's report of itself.
type answer struct {
	status workerapi.Status
	err    error
}

// members checks which workers run, are registered and are wanted, and returns the running ones.
func (c *Checker) members(ctx context.Context) ([]Invariant, census) {
	var session coord.Session
	closeSession := func() {
		if session == nil {
			return
		}
		if err := session.Close(); err != nil && !errors.Is(err, coord.ErrSessionLost) {
			c.cfg.Log.DebugContext(ctx, "session not closed", logkey.Error, err)
		}
		session = nil
	}
	defer func() { closeSession() }()
	var who census
	var invariants []Invariant
	c.await(ctx, func() bool {
		var err error
		if session == nil {
			session, err = c.open(ctx)
		}
		if err == nil {
			who, err = c.count(ctx, session)
		}
		if err != nil {
			closeSession()
			c.cfg.Log.DebugContext(ctx, "workers not counted", logkey.Error, err)
			invariants = unknown(err)
			return false
		}
		invariants = who.classify()
		return holds(invariants)
	})
	return invariants, who
}

func (c *Checker) open(ctx context.Context) (coord.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	session, err := c.cfg.Coordinator.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return session, nil
}

// count asks every source once.
func (c *Checker) count(ctx context.Context, session coord.Session) (census, error) {
	instances, err := c.cfg.Launcher.List(ctx)
	if err != nil {
		return census{}, fmt.Errorf("list workers: %w", err)
	}
	who := census{
		running: slices.DeleteFunc(instances, func(in launch.Instance) bool { return !in.Running }),
		answers: map[dbaas.WorkerID]answer{},
	}
	if who.registered, err = session.Members(ctx); err != nil {
		return who, fmt.Errorf("list members: %w", err)
	}
	if who.wanted, _, err = session.SlaveCount(ctx); err != nil {
		return who, fmt.Errorf("slave count: %w", err)
	}
	var mu sync.Mutex // guards who.answers
	var asked sync.WaitGroup
	for _, in := range who.running {
		asked.Go(func() {
			askCtx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			status, err := c.cfg.Workers.Status(askCtx, in.Control)
			mu.Lock()
			defer mu.Unlock()
			who.answers[in.ID] = answer{status, err}
		})
	}
	asked.Wait()
	return who, nil
}

func unknown(err error) []Invariant {
	why := "not known: " + reason(err)
	return []Invariant{{Name: NoOrphans, Detail: why}, {Name: OneMaster, Detail: why}, {Name: SlavesWanted, Detail: why}}
}

// classify checks that the running workers are the registered ones, and as many as wanted.
func (w census) classify() []Invariant {
	var masters, slaves []string
	for _, m := range w.registered {
		switch {
		case !w.runs(m.Worker):
		case m.Role == dbaas.RoleMaster:
			masters = append(masters, who(m.Worker, m.PID))
		default:
			slaves = append(slaves, who(m.Worker, m.PID))
		}
	}
	one := judged(OneMaster, strings.Join(masters, ", "), nil)
	if len(masters) != 1 {
		one = judged(OneMaster, "", []string{fmt.Sprintf("%d masters run: %s", len(masters), cmp.Or(strings.Join(masters, ", "), "none"))})
	}
	wanted := judged(SlavesWanted, fmt.Sprintf("%d of %d slaves", len(slaves), w.wanted), nil)
	if len(slaves) != w.wanted {
		wanted = judged(SlavesWanted, "", []string{fmt.Sprintf("%d slaves run, %d are wanted", len(slaves), w.wanted)})
	}
	return []Invariant{judged(NoOrphans, fmt.Sprintf("%d workers run and are registered", len(w.running)), w.orphans()), one, wanted}
}

// orphans returns the problems of running and of registered workers.
func (w census) orphans() []string {
	var wrong []string
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, in := range w.running {
		name, says := who(in.ID, in.PID), w.answers[in.ID]
		m, known := w.member(in.ID)
		switch {
		case !known:
			note("%s runs and is not registered", name)
		case m.PID != in.PID:
			note("%s is registered with pid %d", name, m.PID)
		case says.err != nil:
			note("%s does not answer: %s", name, reason(says.err))
		case says.status.Role != m.Role:
			note("%s is registered as %s, and says that it is %s", name, m.Role, cmp.Or(says.status.Role, "nothing"))
		}
	}
	for _, m := range w.registered {
		if !w.runs(m.Worker) {
			note("%s is registered and does not run", who(m.Worker, m.PID))
		}
	}
	return wrong
}

func (w census) runs(id dbaas.WorkerID) bool {
	return slices.ContainsFunc(w.running, func(in launch.Instance) bool { return in.ID == id })
}

func (w census) member(id dbaas.WorkerID) (coord.Member, bool) {
	i := slices.IndexFunc(w.registered, func(m coord.Member) bool { return m.Worker == id })
	if i < 0 {
		return coord.Member{}, false
	}
	return w.registered[i], true
}

func who(id dbaas.WorkerID, pid int) string { return fmt.Sprintf("worker %s (pid %d)", id, pid) }
