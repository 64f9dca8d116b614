package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// Store is what this package needs from the coordinator. *control.Loop implements it.
type Store interface {
	// Value and SetValue are as in coord.Session.
	Value(ctx context.Context, name string) ([]byte, coord.Version, error)
	SetValue(ctx context.Context, name string, value []byte, old coord.Version) error
	// Leads reports whether this orchestrator is the leader.
	Leads() bool
}

const (
	// valueName is the coordinator's value that keeps what PATCH has changed.
	valueName = "admission"
	// followPeriod is how often the settings are read from the coordinator, callTime the timeout of a call. A change
	// takes effect at every orchestrator within the sum of both.
	followPeriod = 500 * time.Millisecond
	callTime     = time.Second
	// sampleTime is the timeout of one sample of the depth. When it expires, the connection used for sampling is
	// closed.
	sampleTime = 5 * time.Second
	// patchTries is how often a PATCH is tried when others change the settings at the same time.
	patchTries = 5
)

// Run follows the depth of the write queue, the dependencies and the coordinator, until ctx ends.
func (g *Gate) Run(ctx context.Context) {
	var all sync.WaitGroup
	every := func(period time.Duration, do func(context.Context)) {
		all.Go(func() {
			for do(ctx); wait.For(ctx, period); {
				do(ctx)
			}
		})
	}
	every(eventTick, func(context.Context) { g.tick(g.cfg.Now()) })
	if g.cfg.Ready != nil {
		every(depthPeriod, g.sample)
	}
	if g.cfg.Store != nil {
		failed := &wait.Streak{}
		every(followPeriod, func(ctx context.Context) { g.follow(ctx, failed) })
		sharing := &sharing{}
		every(sharePeriod, func(ctx context.Context) { g.share(ctx, sharing) })
	}
	all.Wait()
}

// tick updates the breakers, which otherwise change only when a request arrives.
func (g *Gate) tick(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.event.Open {
		g.count(0, now)
	}
	for n := range needs {
		g.look(need(n), now)
	}
	if g.cfg.Ready == nil {
		g.sampled(int(g.own.Load()), true, now)
	}
}

// sample asks the broker for the depth. A slow answer is not a failure: on a slow network writes must not wait for
// samples.
func (g *Gate) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	ready, err := g.cfg.Ready(ctx)
	unanswered := g.cfg.Unanswered()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.sampled(0, false, g.cfg.Now())
		return
	}
	g.sampled(depthOf(int(g.own.Load()), unanswered, ready, g.messages.mean()), true, g.cfg.Now())
}

func (g *Gate) sampled(operations int, ok bool, now time.Time) {
	g.judge(g.rules.depth.Sampled(g.depth, operations, ok, now), now)
}

// judge updates the depth and its breaker. The caller holds g.mu.
func (g *Gate) judge(depth Depth, now time.Time) {
	g.depth = depth
	g.long = g.rules.depth.Judge(g.long, g.depth, now)
	g.announceDepth(g.long.Why)
}

// SentMessage records that a message with this many operations was sent to the write queue.
func (g *Gate) SentMessage(operations int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.messages.add(operations)
}

// follow applies the coordinator's settings to this orchestrator. While the coordinator is unavailable, the settings
// stay as they are.
func (g *Gate) follow(ctx context.Context, failed *wait.Streak) {
	g.changing.Lock()
	defer g.changing.Unlock()
	patched, _, err := g.load(ctx)
	if err == nil {
		err = g.use(patched, "the coordinator's settings")
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, coord.ErrUnavailable) && failed.Fail() {
		g.cfg.Log.WarnContext(ctx, "admission settings not followed", logkey.Error, err)
	}
	if err == nil {
		failed.End()
	}
}

// load returns the settings that PATCH has changed; the object is empty before the first PATCH.
func (g *Gate) load(ctx context.Context) (patched object, version coord.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	text, version, err := g.cfg.Store.Value(ctx, valueName)
	if errors.Is(err, coord.ErrNone) {
		return object{}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read admission settings: %w", err)
	}
	if err = json.Unmarshal(text, &patched); err != nil {
		return nil, 0, fmt.Errorf("decode admission settings: %w", err)
	}
	return patched, version, nil
}

// use applies the environment's settings, overridden by patched. If it returns an error, nothing has changed.
func (g *Gate) use(patched object, why string) error {
	settings, err := g.cfg.Settings.with(patched)
	if err != nil {
		return err
	}
	r, err := settings.compile(g.cfg.CallTimeout)
	if err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "%v", err)
	}
	old, changed := g.swap(settings, r, patched)
	if !changed {
		return nil
	}
	if settings.Lanes != old.Lanes {
		g.cfg.Lanes(r.lanes) // not under g.mu: a lane calls this Gate while the lane is locked
	}
	changes := map[string]Setting{}
	sources(changes, "", asObject(settings), nil)
	before := map[string]Setting{}
	sources(before, "", asObject(old), nil)
	for name, s := range changes {
		if s.Value == before[name].Value {
			continue
		}
		c := Change{Name: name, From: before[name].text(), To: s.text(), Why: why}
		g.cfg.Log.Info("admission setting changed", "setting", name, "from", c.From, "to", c.To)
		g.cfg.Event(EventLimit, c)
	}
	return nil
}

// swap replaces the current settings by settings, which were compiled to r, and returns the old ones.
func (g *Gate) swap(settings Settings, r rules, patched object) (old Settings, changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old = g.settings
	g.patched = patched
	if settings == old {
		return old, false
	}
	closed := ""
	if r.event != g.rules.event {
		closed = "the preset changed"
		g.event = EventState{}
		g.closings++ // an operation that waits for the old breaker stops waiting
	}
	g.settings, g.rules = settings, r
	g.announceEvent(closed)
	g.announceDepth(g.long.Why)
	for n := range needs {
		g.look(need(n), g.cfg.Now())
	}
	g.places.Weigh(r.lanes.Weights)
	g.arrivals.use(r, g.cfg.Now)
	return old, true
}

func asObject(s Settings) object {
	text, _ := json.Marshal(s) // it has only strings and numbers
	var o object
	_ = json.Unmarshal(text, &o) // text is a JSON object
	return o
}

// Patch changes settings by a JSON merge patch (RFC 7396). Setting a value to null restores the environment's value. A
// nil error means that the coordinator has stored the change and that it is in effect at this orchestrator; the other
// orchestrators follow within 2 s. Errors are CodeInvalid, CodeConflict if concurrent changes made every attempt fail,
// and CodeUnavailable if the coordinator did not answer: then the change may or may not have been made.
func (g *Gate) Patch(ctx context.Context, text []byte) error {
	patch, err := parsePatch(text)
	if err != nil {
		return err
	}
	for range patchTries {
		if err = g.patch(ctx, patch); !errors.Is(err, coord.ErrVersion) {
			return err
		}
	}
	return dbaas.WrapError(dbaas.CodeConflict, "the settings are being changed by others", err)
}

func (g *Gate) patch(ctx context.Context, patch object) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	patched, version, err := g.load(ctx)
	if err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the coordinator, which keeps the settings, does not answer", err)
	}
	patched = mergePatch(patched, patch)
	settings, err := g.cfg.Settings.with(patched)
	if err != nil {
		return err
	}
	if err = settings.Check(g.cfg.CallTimeout); err != nil {
		return dbaas.Errorf(dbaas.CodeInvalid, "%v", err)
	}
	text, err := json.Marshal(patched)
	if err != nil {
		return fmt.Errorf("encode admission settings: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err = g.cfg.Store.SetValue(ctx, valueName, text, version); errors.Is(err, coord.ErrVersion) {
		return err
	} else if err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the coordinator did not confirm the change; look whether it was made", err)
	}
	return g.use(patched, "PATCH /api/v1/admission")
}
