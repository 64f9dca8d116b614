// Package control keeps the cluster in the desired state: one master and the wanted number
// of slaves. It is a level-triggered loop around the pure function Plan: events of the engine
// and of the coordinator only wake the loop, and each pass compares the actual state with the
// desired state.
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
	"rideshare/internal/wait"
	"rideshare/internal/workerapi"
)

// Store is what the loop needs from persdb.
type Store interface {
	// Head returns persdb's head. The loop only wants to know whether persdb answers.
	Head(ctx context.Context) (dbaas.Head, error)
	// Claim returns the next epoch. From then on persdb refuses every older epoch.
	Claim(ctx context.Context) (dbaas.Epoch, error)
}

// Workers assigns roles to workers.
type Workers interface {
	// Assign gives the worker at control a role. It returns nil once the worker has accepted the role;
	// the worker serves as soon as it is caught up. A master that is demoted no longer writes by then.
	Assign(ctx context.Context, control string, a workerapi.Assignment) error
	// Yield asks the master at control to announce, for workerapi.YieldFor, that it wants to hand its role over.
	Yield(ctx context.Context, control string, y workerapi.Yield) error
	// Pulse asks the worker at control for a sign of life.
	Pulse(ctx context.Context, control string) (workerapi.Pulse, error)
	// Status returns the status of the worker at control.
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
	// Name identifies this orchestrator among those of the same stack.
	Name string
	// Advertise is the base URL at which other orchestrators reach this one; "" if they cannot.
	Advertise string
	// LeaderAnswers returns nil if the orchestrator at a base URL answers. Without it a silent leader leads until its session ends.
	LeaderAnswers func(ctx context.Context, url string) error
	// Slaves is the wanted number of slaves if the coordinator stores no number yet.
	Slaves int
	// Session is how long the sessions at the coordinator last: 6 s.
	Session time.Duration
	// Period is how long the loop sleeps when nothing wakes it: Config.step.
	Period time.Duration
	// Ready is how long a worker that has a role but does not serve yet may go without progress: 60 s. As long as it
	// makes progress, as when it loads a large snapshot, its time is not limited.
	Ready time.Duration
	// HungAfter is how long a worker may be silent or stuck, while another worker answers, before it is replaced: 600 ms.
	HungAfter time.Duration
	// WritesAnswered returns how many messages with answers to writes this orchestrator has received from the master. While
	// the count grows, the master does not count as hung. WritesAnswered must not block. Default: always 0.
	WritesAnswered func() uint64
	// StartsPerMinute limits how often workers are started, so that a worker that dies immediately is not a
	// fork bomb: 120. It is also the burst: that many may be started together.
	StartsPerMinute int
	// BusUp reports whether this orchestrator is connected to the bus; it must not block. Default: always true.
	// While BusUp is false, no worker is replaced for having lost the bus.
	BusUp func() bool
	// Event, if set, is called for every change of role, membership and scale. It must not block.
	Event func(kind string, data any)
	// Now is the clock: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Session = cmp.Or(c.Session, 6*time.Second)
	c.Period = cmp.Or(c.Period, c.step())
	c.Ready = cmp.Or(c.Ready, time.Minute)
	c.HungAfter = cmp.Or(c.HungAfter, DefaultHungAfter)
	if c.WritesAnswered == nil {
		c.WritesAnswered = func() uint64 { return 0 }
	}
	c.StartsPerMinute = cmp.Or(c.StartsPerMinute, 120)
	if c.BusUp == nil {
		c.BusUp = func() bool { return true }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// step bounds a call to the coordinator, which neither answers nor refuses while it is frozen. It also bounds the renewal of the master.
// A pause, a call and a renewal together must take less than two thirds of a session: a master that is not renewed for that long while
// the coordinator is frozen stops by its own clock.
func (c *Config) step() time.Duration { return min(time.Second, c.Session/6) }

const (
	// engineTimeout bounds a call to the engine that runs outside the loop's goroutine.
	engineTimeout = 30 * time.Second
	// listTimeout bounds the list of workers, with which each pass begins.
	listTimeout = 5 * time.Second
	// claimTimeout bounds a claim, which costs persdb an fsync.
	claimTimeout = 5 * time.Second
	// assignTimeout bounds the assignment of a role. A healthy worker answers immediately, except that a
	// master that is demoted first answers its pending requests.
	assignTimeout = 2 * time.Second
)

// DefaultHungAfter is the default of Config.HungAfter: a read that a hung slave holds, or a write that a hung master
// holds, then goes to another worker within a second.
const DefaultHungAfter = 600 * time.Millisecond

// registerAgain is how long a running master may be unregistered: a worker that gets a new session registers
// again within some milliseconds.
const registerAgain = 500 * time.Millisecond

// busPatience is how long a worker may be without the bus while others have it. It is longer than the
// longest pause between two reconnect attempts (5 s), since after a broker outage every worker reconnects by itself.
const busPatience = 8 * time.Second

// Loop is the control loop. It is safe for concurrent use.
type Loop struct {
	cfg  Config
	wake wait.Token
	jobs sync.WaitGroup

	// Only Run's goroutine uses these fields.
	opening   chan opened // gets the session that is being opened; nil if none is
	leadsFrom time.Time   // when the present term as leader began
	storeLost time.Time   // since when persdb has not answered this leader; zero if it answered the last time

	mu           sync.Mutex // guards the fields below
	session      coord.Session
	sessionSince time.Time   // when session was opened
	unopened     wait.Streak // of failed attempts to open a session
	unlisted     wait.Streak // of failed attempts to list the workers
	leading      bool
	leadsIn      coord.Session // session in which this orchestrator was last found to lead
	memory       map[dbaas.WorkerID]*memory
	starting     map[string]string // ids of starts under way, with their hosts
	starts       startLimit
	startFailed  map[string]time.Time // when a start last failed on each host, or a worker that was not proven ended there
	nextID       int
	values       map[string][]byte // of the coordinator, as last seen
	view         view
	busSince     time.Time   // as Observed.BusSince
	looked       wait.Signal // notified in each pass
	vitals       map[dbaas.WorkerID]*vital
	writes       uint64                  // Config.WritesAnswered at the last tick
	hung         map[dbaas.WorkerID]hang // the workers that counted as hung at hungAt, with the reasons
	hungAt       time.Time
	asked        map[dbaas.WorkerID]time.Time // since when each worker has regularly been asked for its pulse
}

// New returns a Loop. It does nothing until Run is called.
func New(cfg Config) *Loop {
	cfg = cfg.withDefaults()
	now := cfg.Now()
	return &Loop{
		cfg:      cfg,
		wake:     wait.NewToken(),
		memory:   map[dbaas.WorkerID]*memory{},
		starting: map[string]string{},
		starts:   newStartLimit(cfg.StartsPerMinute), startFailed: map[string]time.Time{},
		view: view{slaveless: now, masterless: now},
	}
}

// Run runs the loop until ctx ends and returns ctx's error. The workers keep running, and
// another orchestrator's loop adopts them.
func (l *Loop) Run(ctx context.Context) error {
	defer l.closeSession()
	defer l.closeOpened()
	defer l.jobs.Wait()
	l.jobs.Go(func() { l.every(ctx, l.cfg.HungAfter/hungTicks, l.tickPulses) })
	l.jobs.Go(func() { l.every(ctx, askHostsEvery, l.askHosts) })
	l.jobs.Go(func() { l.watchLeader(ctx) })
	for ctx.Err() == nil {
		again := l.pass(ctx)
		if !again {
			l.sleep(ctx)
		}
	}
	return ctx.Err()
}

// Wake makes the loop run its next pass soon.
func (l *Loop) Wake() {
	l.wake.Give()
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

// unsettledPeriod is how long the loop sleeps while it waits for a registration,
// since no event may wake it when the time limit of that registration ends.
const unsettledPeriod = 100 * time.Millisecond

func (l *Loop) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.unsettled {
		return min(unsettledPeriod, l.cfg.Period)
	}
	return l.cfg.Period
}

// pass observes the cluster once and carries out the plan. It reports whether it carried out any action, so
// that the next pass should follow immediately.
func (l *Loop) pass(ctx context.Context) bool {
	session := l.openSession(ctx)
	starting := l.startsUnderWay() // before the list: a start that ends in between is in both and is counted once
	list, err := l.list(ctx)
	if err != nil {
		l.passUnlisted(ctx, session)
		return false
	}
	seen := l.observe(ctx, session, list, starting)
	if !seen.CoordinatorUp && l.isLeading() {
		l.renew(ctx, seen) // before everything else: the master stops by its own clock if it is not renewed in time
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
	if seen.CoordinatorUp && l.cfg.Now().Sub(seen.Now) >= l.cfg.step() {
		// The coordinator has stopped answering since it was observed. The next pass would renew too late.
		l.renew(ctx, seen)
	}
	l.askProgress(ctx, seen)
	limits := Limits{Session: l.sessionTimeout(session), Reregister: registerAgain, Bus: busPatience, Persdb: persdbPatience, Ready: l.cfg.Ready}
	actions := l.permit(ctx, Plan(seen, desired, limits))
	for _, a := range actions {
		if err := l.do(ctx, a); err != nil {
			l.cfg.Log.WarnContext(ctx, "action not done", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.Error, err)
			l.offerLead(ctx, session)
			return false
		}
	}
	return len(actions) > 0
}

// desired returns the wanted number of slaves: what guessDesired returns if the coordinator does not answer. If the
// coordinator stores none, because this is the very first start or because it has lost its data, the leading orchestrator
// writes that number.
func (l *Loop) desired(ctx context.Context, session coord.Session, leading bool, o Observed) (Desired, error) {
	if session == nil {
		return Desired{Slaves: l.guessDesired(o)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.step())
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
		return Desired{Slaves: l.guessDesired(o)}, nil
	}
	if err != nil {
		return Desired{}, fmt.Errorf("slave count: %w", err)
	}
	l.knowDesired(ctx, n)
	return Desired{Slaves: n}, nil
}

// knowDesired records the wanted number of slaves that the coordinator stores.
func (l *Loop) knowDesired(ctx context.Context, n int) {
	l.mu.Lock()
	changed := l.view.desiredKnown && l.view.desired != n
	l.view.desired, l.view.desiredKnown = n, true
	l.mu.Unlock()
	if changed {
		l.cfg.Log.InfoContext(ctx, "another number of slaves wanted", logkey.Count, n)
		l.emit(EventScale, ScaleEvent{Slaves: n})
	}
}

// guessDesired returns the wanted number of slaves when the coordinator stores none or does not answer: the last known number, else the
// number of running slaves, else Config.Slaves.
func (l *Loop) guessDesired(o Observed) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.desiredKnown {
		return l.view.desired
	}
	return cmp.Or(slavesOf(o.Workers), l.cfg.Slaves)
}

// slavesOf returns how many of the workers are slaves. Workers whose role is unknown, since they have not registered
// again yet, count as slaves, except for one of them if no master is known.
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
