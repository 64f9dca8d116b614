// Package admission protects the orchestrator from overload. It serves what it can and refuses the rest immediately,
// with a reason. Each stage is a small state machine without clocks, goroutines or locks; Gate drives them.
//
// DESIGN.md in this folder has the chain and the reasons.
package admission

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// Config is what New needs. Log, Settings and Broker, Master and Slaves are required.
type Config struct {
	Log *slog.Logger
	// Name distinguishes this orchestrator from the others.
	Name string
	// Settings are the settings from the environment.
	Settings Settings
	// CallTimeout is the timeout of an operation that sets none.
	CallTimeout time.Duration
	// Broker reports whether the broker accepts messages. Master and Slaves report which workers serve and, if none does,
	// since when. They are called for each request and must not block.
	Broker func() bool
	Master func() (present bool, since time.Time)
	Slaves func() (n int, since time.Time)
	// Ready returns how many messages of the write queue wait at the broker, and Unanswered how many messages of this
	// orchestrator are unanswered. If Ready is nil, only this orchestrator's operations count for the depth.
	Ready      func(ctx context.Context) (int, error)
	Unanswered func() int
	// Store keeps the settings that PATCH has changed, and the shares of the orchestrators. If it is nil, Patch must
	// not be called and limits cannot be shared.
	Store Store
	// Lanes, if set, passes changes of the lanes' settings to the dispatcher. It is never called concurrently.
	Lanes func(Lanes)
	// LaneStats, if set, returns the state of each lane of the dispatcher by name.
	LaneStats func() map[string]LaneStatus
	// Event, if set, is called with each change of a breaker or a setting. Waited, if set, is called with the time that
	// an operation waited at a stage. Neither may block.
	Event  func(kind string, change Change)
	Waited func(stage string, took time.Duration)
	// Random returns a number in [0, 1), Now the time. Both have defaults.
	Random func() float64
	Now    func() time.Time
}

// The kinds of events.
const (
	EventBreaker = "breaker"
	EventLimit   = "limit"
)

// Change is the data of an event: a breaker or a limit changed, and why.
type Change struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
}

// Gate is the chain of stages before the dispatcher. It is safe for concurrent use. A nil Gate admits everything.
type Gate struct {
	cfg    Config
	counts counts
	own    atomic.Int64 // operations handed to the dispatcher that have not ended

	arrivals arrivals

	mu        sync.Mutex // guards the fields below
	settings  Settings
	patched   object // the settings that PATCH has changed
	rules     rules
	event     EventState
	closings  int // how often the event-count breaker has closed
	depth     Depth
	long      Breaker // the depth breaker
	messages  means
	needs     [needs]Dependency
	met       [needs]bool                    // the dependency was up before
	announced announced                      // the states of the breakers that were published last
	quiet     time.Time                      // until then, a dependency that was never up is not announced
	waiting   map[string]int                 // operations that wait, by stage
	places    *Fair[context.CancelCauseFunc] // of the same operations; a value ends the operation's wait

	changing sync.Mutex // held while the settings are read or changed
}

// announced has what was published last of each breaker.
type announced struct {
	needs        [needs]published
	event, depth published
}

type published struct {
	state State
	held  bool // by an operator
}

// New returns a Gate. While Run runs, the Gate follows the depth of the write queue and the settings in the
// coordinator. The error names the invalid settings.
func New(cfg Config) (*Gate, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Event == nil {
		cfg.Event = func(string, Change) {}
	}
	if cfg.Lanes == nil {
		cfg.Lanes = func(Lanes) {}
	}
	if cfg.LaneStats == nil {
		cfg.LaneStats = func() map[string]LaneStatus { return nil }
	}
	if cfg.Waited == nil {
		cfg.Waited = func(string, time.Duration) {}
	}
	r, err := cfg.Settings.compile(cfg.CallTimeout)
	if err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, settings: cfg.Settings, rules: r, depth: Depth{at: cfg.Now()}, waiting: map[string]int{}, quiet: cfg.Now().Add(startTime)}
	g.places = NewFair[context.CancelCauseFunc](r.lanes.Weights)
	g.arrivals.users = map[string]*user{}
	g.arrivals.use(r, cfg.Now)
	return g, nil
}

// need is a service without which a request cannot be served.
type need int

const (
	broker need = iota
	master
	slaves
	needs int = iota
)

// needReasons are the names of the breakers, and also the reasons of their refusals.
var needReasons = [...]string{broker: dbaas.ReasonBroker, master: dbaas.ReasonMaster, slaves: dbaas.ReasonSlaves}

var needMessages = [...]string{
	broker: "the broker takes no messages at the moment",
	master: "no master serves at the moment",
	slaves: "no slave serves reads at the moment",
}

// How long there may be no slave or no master before requests are refused. A fail-over is usually over before that.
const (
	slavesGrace = time.Second
	masterGrace = 2 * time.Second
)

// up reports whether a dependency is available at this moment, without the grace that down gives.
func (g *Gate) up(n need) bool {
	switch n {
	case broker:
		return g.cfg.Broker()
	case master:
		present, _ := g.cfg.Master()
		return present
	case slaves:
		some, _ := g.cfg.Slaves()
		return some > 0
	}
	return false
}

// down returns why a dependency is down, or "".
func (g *Gate) down(n need, now time.Time) string {
	switch n {
	case broker:
		if !g.cfg.Broker() {
			return "the connection is lost, or the broker blocks publishers"
		}
	case master:
		if present, since := g.cfg.Master(); !present && now.Sub(since) >= masterGrace {
			return "no master for 2 s"
		}
	case slaves:
		if some, since := g.cfg.Slaves(); some == 0 && now.Sub(since) >= slavesGrace {
			return "no slave for 1 s"
		}
	}
	return ""
}

// manual returns the state in which an operator holds a breaker; ok is false if the breaker is automatic.
func manual(setting string) (s State, ok bool) {
	switch setting {
	case Open.String():
		return Open, true
	case Closed.String():
		return Closed, true
	}
	return Closed, false
}

func (b *BreakerSettings) of(n need) string { return []string{b.Broker, b.Master, b.Slaves}[n] }

// effective returns the breaker that requests meet: b, unless an operator holds it in a state.
func effective(b Breaker, setting string) (_ Breaker, held bool) {
	if state, ok := manual(setting); ok {
		return Breaker{State: state, Why: "an operator holds it"}, true
	}
	return b, false
}

// announce publishes the state in which requests meet a breaker, unless it was published last. The caller holds g.mu.
func (g *Gate) announce(name string, last *published, b Breaker, setting string) {
	before := *last
	b, last.held = effective(b, setting)
	if last.state = b.State; b.State == before.state {
		return
	}
	c := Change{Name: name, From: before.state.String(), To: b.State.String(), Why: b.Why}
	if c.Why == "" && before.held {
		c.Why = "no operator holds it any more"
	}
	g.cfg.Log.Warn("breaker changed", "breaker", name, "from", c.From, "to", c.To, logkey.Reason, c.Why)
	g.cfg.Event(EventBreaker, c)
}

func (g *Gate) announceNeed(n need) {
	g.announce(needReasons[n], &g.announced.needs[n], g.needs[n].Breaker, g.settings.Breakers.of(n))
}

// announceEvent publishes the state of the event-count breaker. closed says why it is closed, if it is.
func (g *Gate) announceEvent(closed string) {
	b := g.eventBreaker()
	if b.State == Closed {
		b.Why = closed
	}
	g.announce("event", &g.announced.event, b, g.settings.Breakers.Event)
}

func (g *Gate) announceDepth(why string) {
	b := g.long
	b.Why = why
	g.announce("depth", &g.announced.depth, b, g.settings.Breakers.Depth)
}

// Check returns an error while messages to q are refused, because the breaker of the broker or of q's workers is open.
func (g *Gate) Check(q mq.Queue, now time.Time) error {
	worker := master
	if q == mq.ReadQ {
		worker = slaves
	}
	return g.check(worker, now)
}

// check returns an error while the breaker of the broker or of n is open.
func (g *Gate) check(n need, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err := g.enter(broker, now, false)
	if err == nil {
		_, err = g.enter(n, now, false)
	}
	return err
}

// enter returns an error while the breaker of a dependency refuses requests. With probe set the request enters the
// breaker, and p is its pass. The caller holds g.mu.
func (g *Gate) enter(n need, now time.Time, probe bool) (p Pass, err error) {
	if held, ok := manual(g.settings.Breakers.of(n)); ok {
		if held == Open {
			return p, dbaas.Refuse(needReasons[n], 0, "the breaker is held open by an operator")
		}
		return p, nil
	}
	d := &g.needs[n]
	g.look(n, now)
	ok := d.State != Open
	if probe {
		d.Breaker, p, ok = d.Enter(now)
	}
	if !ok {
		return p, dbaas.Refuse(needReasons[n], max(0, d.Until.Sub(now)), needMessages[n])
	}
	return p, nil
}

// startTime is for how long after the start a dependency that has not been up yet is not announced.
const startTime = 30 * time.Second

// look updates the breaker of a dependency and announces its state. The breaker of a dependency that has not been up
// since the start is open, but is not announced before startTime is over.
func (g *Gate) look(n need, now time.Time) {
	d := &g.needs[n]
	d.Look(g.down(n, now), now)
	if _, held := manual(g.settings.Breakers.of(n)); !held && !g.met[n] && now.Before(g.quiet) {
		g.met[n] = g.up(n)
		return
	}
	g.announceNeed(n)
}
