package admission

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
)

// reasons are all reasons of refusals. "" stands for a request that no stage refused.
var reasons = [...]string{
	"", dbaas.ReasonInflight, dbaas.ReasonUserInflight, dbaas.ReasonUserRate, dbaas.ReasonClassRate, dbaas.ReasonEventBreaker,
	dbaas.ReasonDepthBreaker, dbaas.ReasonDepthWait, dbaas.ReasonUserQueue, dbaas.ReasonLaneFull, dbaas.ReasonUnroutable,
	dbaas.ReasonQueueFull, dbaas.ReasonBroker, dbaas.ReasonMaster, dbaas.ReasonSlaves, dbaas.ReasonDeadline,
}

// The stages where operations wait.
const (
	stageEvent = "event"
	stageDepth = "depth"
)

// stageOf returns the stage that refuses with a reason, or "chain" for any other reason.
func stageOf(reason string) string {
	switch reason {
	case dbaas.ReasonInflight, dbaas.ReasonUserInflight:
		return "inflight"
	case dbaas.ReasonUserRate, dbaas.ReasonClassRate:
		return "rate"
	case dbaas.ReasonEventBreaker:
		return stageEvent
	case dbaas.ReasonDepthBreaker, dbaas.ReasonDepthWait:
		return stageDepth
	case dbaas.ReasonUserQueue, dbaas.ReasonLaneFull:
		return "lane"
	case dbaas.ReasonUnroutable, dbaas.ReasonQueueFull:
		return "publish"
	case dbaas.ReasonBroker, dbaas.ReasonMaster, dbaas.ReasonSlaves:
		return "dependency"
	case dbaas.ReasonDeadline:
		return "deadline"
	}
	return "chain"
}

// counts counts requests by class and reason. It is safe for concurrent use.
type counts [classes][len(reasons)]atomic.Uint64

func (c *counts) add(class Class, err error) {
	reason := dbaas.ReasonOf(err)
	for i, known := range reasons {
		if reason == known {
			c[class][i].Add(1)
			return
		}
	}
	c[class][0].Add(1) // a refusal that is not for overload, such as that of a request whose key belongs to a request that still runs
}

// Count is how many requests of a class a stage refused with a reason. The Count with the stage "chain" is how many
// requests no stage refused.
type Count struct {
	Stage, Class, Outcome, Reason string
	Requests                      uint64
}

// Counts returns all counts.
func (g *Gate) Counts() []Count {
	var all []Count
	for class := range classes {
		for i, reason := range reasons {
			outcome := "refused"
			if reason == "" {
				outcome = "admitted"
			}
			all = append(all, Count{stageOf(reason), Class(class).String(), outcome, reason, g.counts[class][i].Load()})
		}
	}
	return all
}

// BreakerStatus is what GET /api/v1/admission shows about a breaker.
type BreakerStatus struct {
	State string `json:"state"`
	// Why is the reason that the breaker is not closed. Until is when it may become half-open.
	Why   string     `json:"why,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Held reports whether an operator holds the breaker in this state.
	Held bool `json:"held,omitempty"`
}

// Setting is a setting with its source: environment, or patch if PATCH has changed it.
type Setting struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// text returns the value as a person writes it: one million is 1000000, not 1e+06.
func (s Setting) text() string {
	if n, ok := s.Value.(float64); ok { // as JSON is decoded
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(s.Value)
}

// StageStatus is what GET /api/v1/admission shows about a stage.
type StageStatus struct {
	// Now is compared with Limit: requests in flight, or the depth in operations.
	Now     *int              `json:"now,omitempty"`
	Limit   *int              `json:"limit,omitempty"`
	Waiting *int              `json:"waiting,omitempty"`
	Refused map[string]uint64 `json:"refused"`
	// Limits is the state of the limits of each limited class.
	Limits map[string]LimitStatus `json:"limits,omitempty"`
}

// LimitStatus is what GET /api/v1/admission shows about the limits of a class.
type LimitStatus struct {
	// Left is how many tokens the bucket of all users together has. EmptyUsers is how many users have no token left of their
	// own. Each is nil without such a limit.
	Left       *int `json:"left,omitempty"`
	EmptyUsers *int `json:"empty_users,omitempty"`
}

// LaneStatus is what GET /api/v1/admission shows about a lane.
type LaneStatus struct {
	// Now is how many operations wait or are in flight; Limit bounds it. Waiting is how many of them wait.
	Now     int `json:"now"`
	Limit   int `json:"limit"`
	Waiting int `json:"waiting"`
}

// Status is what GET /api/v1/admission shows.
type Status struct {
	Settings map[string]Setting       `json:"settings"`
	Stages   map[string]*StageStatus  `json:"stages"`
	Lanes    map[string]LaneStatus    `json:"lanes,omitempty"`
	Breakers map[string]BreakerStatus `json:"breakers"`
	Shares   *ShareStatus             `json:"shares,omitempty"`
	Admitted uint64                   `json:"admitted"`
	Users    []UserStatus             `json:"users"`
}

// Status returns the state of all stages.
func (g *Gate) Status() Status {
	s := Status{Stages: map[string]*StageStatus{}}
	for _, c := range g.Counts() {
		if c.Reason == "" {
			s.Admitted += c.Requests
			continue
		}
		if s.Stages[c.Stage] == nil {
			s.Stages[c.Stage] = &StageStatus{Refused: map[string]uint64{}}
		}
		s.Stages[c.Stage].Refused[c.Reason] += c.Requests
	}
	var inflight int
	s.Users, inflight = g.arrivals.busiest()
	s.Shares = g.arrivals.shareStatus(g.cfg.Now())
	s.Stages["rate"].Limits = g.arrivals.limits(g.cfg.Now)
	s.Breakers = g.Breakers()
	s.Lanes = g.cfg.LaneStats() // not under g.mu, as Config.Lanes
	g.mu.Lock()
	defer g.mu.Unlock()
	limit, depth, depthLimit, depthWaits, eventWaits := g.rules.inflight, g.depth.Operations, g.rules.depth.Wait, g.waiting[stageDepth], g.waiting[stageEvent]
	s.Stages["inflight"].Now, s.Stages["inflight"].Limit = &inflight, &limit
	s.Stages[stageDepth].Now, s.Stages[stageDepth].Limit = &depth, &depthLimit
	s.Stages[stageEvent].Waiting, s.Stages[stageDepth].Waiting = &eventWaits, &depthWaits
	s.Settings = map[string]Setting{}
	sources(s.Settings, "", asObject(g.settings), g.patched)
	return s
}

// sources adds each setting of all, under its path, with its source.
func sources(out map[string]Setting, path string, all, patched object) {
	for name, value := range all {
		name = strings.TrimPrefix(path+"."+name, ".")
		own := name[strings.LastIndexByte(name, '.')+1:]
		if inner, nested := value.(object); nested {
			changed, _ := patched[own].(object)
			sources(out, name, inner, changed)
			continue
		}
		source := "environment"
		if _, changed := patched[own]; changed {
			source = "patch"
		}
		out[name] = Setting{value, source}
	}
}

// Breakers returns the state of each breaker by name.
func (g *Gate) Breakers() map[string]BreakerStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]BreakerStatus{
		"event": statusOf(g.eventBreaker(), g.settings.Breakers.Event),
		"depth": statusOf(g.long, g.settings.Breakers.Depth),
	}
	for n := range needs {
		all[needReasons[n]] = statusOf(g.needs[n].Breaker, g.settings.Breakers.of(need(n)))
	}
	return all
}

func (g *Gate) eventBreaker() Breaker {
	if !g.event.Open {
		return Breaker{}
	}
	return Breaker{State: Open, Why: "too many operations within an interval"}
}

func statusOf(b Breaker, setting string) BreakerStatus {
	b, held := effective(b, setting)
	s := BreakerStatus{State: b.State.String(), Why: b.Why, Held: held}
	if b.State == Open && !b.Until.IsZero() {
		s.Until = &b.Until
	}
	return s
}

// Depth returns the last known depth of the write queue, in operations.
func (g *Gate) Depth() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.depth.Operations
}
