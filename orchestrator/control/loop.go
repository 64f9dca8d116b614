// Package control keeps the workers as they should be: one master, as many
// slaves as wanted. It is a level-triggered loop around the pure function Plan: events
// of the engine and of the coordinator only wake it, and each pass compares what is with what
// should be.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// Store is what the loop needs from persdb.
type Store interface {
	// Claim gives out the next epoch; every older one is refused from then on.
	Claim(ctx context.Context) (dbaas.Epoch, error)
}

// Workers tells workers what to be.
type Workers interface {
	// Assign gives the worker at control a role. nil means that it took it and
	// will serve once it is caught up, and that a master that becomes a slave writes no more.
	Assign(ctx context.Context, control string, a workerapi.Assignment) error
	// Yield asks the master at control to want to hand its role over, for workerapi.YieldFor.
	Yield(ctx context.Context, control string, y workerapi.Yield) error
	// Status asks the worker at control how it is.
	Status(ctx context.Context, control string) (workerapi.Status, error)
}

// Config is what a Loop needs. Log, Launcher, Coordinator, Store and Workers
// are required; the rest has defaults.
type Config struct {
	Log         *slog.Logger
	Launcher    Launcher
	Coordinator coord.Coordinator
	Store       Store
	Workers     Workers
	// Name tells this orchestrator from others of the same stack.
	Name string
	// Slaves is the wanted number of slaves if the coordinator has none yet.
	Slaves int
	// Period is how long the loop sleeps when nothing wakes it: 1 s. While the
	// coordinator is frozen this, coordTimeout and renewTimeout together are less than
	// the two thirds of a session after which a master stops by its own clock.
	Period time.Duration
	// Ready is how long a worker that has a role may be without progress before it serves: 60 s. With progress,
	// as in a large snapshot that comes, it may take what it takes.
	Ready time.Duration
	// StartsPerMinute bounds how often workers are started, so that a worker
	// that dies at once is not a fork bomb: 120. So many may be started at once, after that as many a minute.
	StartsPerMinute int
	// BusUp tells whether this orchestrator has the bus; it must not block. Default: it has. While it has not,
	// nobody is replaced for having lost it.
	BusUp func() bool
	// Event, if set, is told of every change of role, membership and scale. It must not block.
	Event func(kind string, data any)
	// Now is the clock: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Period == 0 {
		c.Period = time.Second
	}
	if c.Ready == 0 {
		c.Ready = time.Minute
	}
	if c.StartsPerMinute == 0 {
		c.StartsPerMinute = 120
	}
	if c.BusUp == nil {
		c.BusUp = func() bool { return true }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

const (
	// engineTimeout bounds a call to the engine that goes on beside the loop.
	engineTimeout = 30 * time.Second
	// listTimeout bounds the list of workers, with which each pass begins.
	listTimeout = 5 * time.Second
	// claimTimeout bounds a claim: persdb needs a fsync for it.
	claimTimeout = 5 * time.Second
	// assignTimeout bounds the giving of a role. A worker that is healthy answers at once, but a
	// master that becomes a slave only when it has answered what it had.
	assignTimeout = 2 * time.Second
)

// registerAgain is how long a running master may be without its registration:
// a worker that gets a new session registers in it within some milliseconds.
const registerAgain = 500 * time.Millisecond

// busPatience is how long a worker may be without the bus while others have it. It is
// more than the longest pause between two tries to connect (5 s): after an outage of the broker
// everybody comes back by himself.
const busPatience = 8 * time.Second

// Loop is the control loop. It is safe for concurrent use.
type Loop struct {
	cfg  Config
	wake chan struct{}
	jobs sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	session      coord.Session
	sessionSince time.Time // when it was opened
	openFailed   int       // tries to open a session since the last success
	listFailed   int       // tries to list the workers since the last success
	listed       time.Time // when the engine was asked for the last list that it gave
	leading      bool
	leadsIn      coord.Session // in which it was last found to lead
	memory       map[dbaas.WorkerID]*memory
	starting     map[string]bool // ids of starts under way
	starts       startLimit
	nextID       int
	view         view
	busSince     time.Time     // as Observed.BusSince
	looked       chan struct{} // closed and made anew at each look
}

// New returns a Loop. Run makes it work.
func New(cfg Config) *Loop {
	cfg = cfg.withDefaults()
	now := cfg.Now()
	return &Loop{
		cfg:      cfg,
		wake:     make(chan struct{}, 1),
		memory:   map[dbaas.WorkerID]*memory{},
		starting: map[string]bool{},
		starts:   startLimit{perMinute: cfg.StartsPerMinute},
		looked:   make(chan struct{}),
		view:     view{slaveless: now, masterless: now},
	}
}

// Run works until ctx ends and returns its error. Workers stay as they are: the
// loop's end says nothing about them, and another one adopts them.
func (l *Loop) Run(ctx context.Context) error {
	defer l.closeSession()
	defer l.jobs.Wait()
	for ctx.Err() == nil {
		again := l.pass(ctx)
		if !again {
			l.sleep(ctx)
		}
	}
	return ctx.Err()
}

// Wake makes the loop look again soon.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Loop) sleep(ctx context.Context) {
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	var watch <-chan struct{}
	if s := l.currentSession(); s != nil {
		watch = s.Watch()
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.wake:
	case <-l.cfg.Launcher.Events():
	case <-watch:
	}
}

// unsettledPeriod is how long the loop sleeps while it waits for a registration:
// nothing may wake it when its patience ends.
const unsettledPeriod = 100 * time.Millisecond

func (l *Loop) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.unsettled {
		return min(unsettledPeriod, l.cfg.Period)
	}
	return l.cfg.Period
}

// pass looks once and does what the plan says. It reports whether it did
// something that makes another look worthwhile at once.
func (l *Loop) pass(ctx context.Context) bool {
	session := l.openSession(ctx)
	starting := l.startsUnderWay() // before the list: a start that ends in between is in both and counts once
	instances, err := l.list(ctx)
	if err != nil {
		return false
	}
	seen := l.observe(ctx, session, instances, starting)
	if !seen.CoordinatorUp && l.isLeading() {
		l.renew(ctx, seen) // first of all: the master's own clock is running
	}
	leading := l.lead(ctx, session)
	desired, err := l.desired(ctx, session, leading, seen)
	if err != nil {
		l.cfg.Log.WarnContext(ctx, "slave count not read", logkey.Error, err)
		return false
	}
	if !leading {
		return false
	}
	l.askProgress(ctx, seen)
	limits := Limits{Session: l.sessionTimeout(session), Again: registerAgain, Bus: busPatience, Ready: l.cfg.Ready}
	actions := l.permit(ctx, Plan(seen, desired, limits))
	for _, a := range actions {
		if err := l.do(ctx, a); err != nil {
			l.cfg.Log.WarnContext(ctx, "action not done", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.Error, err)
			return false
		}
	}
	return len(actions) > 0
}

// list asks the engine who runs. Of a streak of failures the first is logged.
func (l *Loop) list(ctx context.Context) ([]launch.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	began := l.cfg.Now()
	instances, err := l.cfg.Launcher.List(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.listFailed++; l.listFailed == 1 {
			l.cfg.Log.WarnContext(ctx, "workers not listed", logkey.Error, err)
		}
		return nil, err
	}
	if l.listFailed > 0 {
		l.cfg.Log.InfoContext(ctx, "workers listed again", logkey.Count, l.listFailed)
	}
	l.listFailed, l.listed = 0, began
	return instances, nil
}

// desired returns the wanted number of slaves. One that is not there, since this is the very first start or the
// coordinator has lost its data, is written by the one who leads, from what is known or seen.
func (l *Loop) desired(ctx context.Context, session coord.Session, leading bool, o Observed) (Desired, error) {
	if session == nil {
		return Desired{Slaves: l.lastDesired()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, coordTimeout)
	defer cancel()
	n, version, err := session.SlaveCount(ctx)
	if errors.Is(err, coord.ErrNone) {
		n, err = l.guessDesired(o), nil
		if leading {
			l.cfg.Log.InfoContext(ctx, "slave count written for the first time", logkey.Count, n)
			err = session.SetSlaveCount(ctx, n, version)
		}
	}
	if errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrSessionLost) {
		return Desired{Slaves: l.lastDesired()}, nil
	}
	if err != nil {
		return Desired{}, fmt.Errorf("slave count: %w", err)
	}
	l.mu.Lock()
	changed := l.view.desiredKnown && l.view.desired != n
	l.view.desired, l.view.desiredKnown = n, true
	l.mu.Unlock()
	if changed {
		l.cfg.Log.InfoContext(ctx, "another number of slaves wanted", logkey.Count, n)
		l.tell(EventScale, ScaleEvent{Slaves: n})
	}
	return Desired{Slaves: n}, nil
}

// guessDesired is the wanted number where none is kept: the one that was known last, else as many
// slaves as run, else the setting.
func (l *Loop) guessDesired(o Observed) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.desiredKnown {
		return l.view.desired
	}
	return cmp.Or(slavesOf(o.Workers), l.cfg.Slaves)
}

// slavesOf is how many of the workers are slaves. Those whose role is not known, since they have not
// registered again yet, are slaves too, but for one if no master is known.
func slavesOf(workers []Worker) int {
	count := map[dbaas.Role]int{}
	for _, w := range workers {
		if w.Running && !w.Stopping {
			count[w.Role]++
		}
	}
	slaves := count[dbaas.RoleSlave] + count[dbaas.RoleNone]
	if count[dbaas.RoleMaster] == 0 && count[dbaas.RoleNone] > 0 {
		slaves--
	}
	return slaves
}

func (l *Loop) lastDesired() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.desiredKnown {
		return l.view.desired
	}
	return l.cfg.Slaves
}
