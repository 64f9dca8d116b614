package scale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

const (
	// ledgerName is the name of the coordinator's value that holds the ledger.
	ledgerName = "scaling"
	// readTimeout bounds how long Decisions waits for the ledger.
	readTimeout = time.Second
	// tryTimeout bounds one attempt to write a decision.
	tryTimeout = 10 * time.Second
	// firstPause is the first pause between attempts. The pause doubles up to lastPause.
	firstPause, lastPause = 100 * time.Millisecond, 5 * time.Second
)

// run makes and writes decisions until ctx ends.
func (s *Scaler) run(ctx context.Context) {
	next := s.resume(ctx)
	for ctx.Err() == nil {
		var w window
		if next != nil {
			w = *next
		} else {
			select {
			case w = <-s.windows:
			case <-ctx.Done():
				return
			}
		}
		next = s.carryOut(ctx, w)
	}
}

// resume carries out the newest decision if the orchestrator that made it died before it could do so. A decision
// older than a period is left alone, since the next tick has overtaken it. If a window ends before resume is done,
// resume gives up and returns that window.
func (s *Scaler) resume(ctx context.Context) *window {
	// While the system starts, the coordinator is not reached yet. The control loop logs it if that lasts.
	quiet := func(ctx context.Context, err error) {
		s.cfg.Log.DebugContext(ctx, "last scaling decision not read, trying again", logkey.Error, err)
	}
	return s.untilDone(ctx, quiet, func(ctx context.Context) error {
		l, version, err := s.load(ctx)
		if err != nil {
			return err
		}
		d := l.newest()
		if d == nil || d.Done || s.cfg.Clock.Since(d.At).Abs() >= s.cfg.Period {
			return nil
		}
		return s.finish(ctx, &l, version, *d)
	})
}

// carryOut decides about w and writes the decision, retrying until it succeeds. If the next
// window ends first, carryOut gives up and returns that window.
func (s *Scaler) carryOut(ctx context.Context, w window) (next *window) {
	sample := Sample{Missing: []string{"no observer"}}
	if s.cfg.Observe != nil {
		sample = s.cfg.Observe(ctx)
	}
	var d *Decision
	warn := func(ctx context.Context, err error) {
		s.cfg.Log.WarnContext(ctx, "scaling decision not written, trying again", logkey.Error, err)
	}
	next = s.untilDone(ctx, warn, func(ctx context.Context) error {
		var err error
		d, err = s.decide(ctx, w, sample)
		return err
	})
	switch {
	case d == nil: // handed over to another orchestrator
	case d.Done:
		s.cfg.Log.InfoContext(ctx, "scaling decided", "reads", d.Count, "wanted", d.Wanted, logkey.Reason, d.Why)
		s.report(*d)
	default:
		d.Why += "; not carried out, overtaken by a later decision"
		s.remember(*d)
		s.cfg.Log.WarnContext(ctx, "scaling decision overtaken", "reads", d.Count, "wanted", d.Wanted, logkey.Reason, d.Why)
		s.report(*d)
	}
	return next
}

func (s *Scaler) report(d Decision) {
	if s.cfg.Decided != nil {
		s.cfg.Decided(d)
	}
}

// untilDone calls try until try succeeds, ctx ends, or the next window ends; in that last case
// it returns the window. It calls report with the errors that are to be logged.
func (s *Scaler) untilDone(ctx context.Context, report func(context.Context, error), try func(context.Context) error) *window {
	var bad wait.Streak
	backoff := wait.Backoff{First: firstPause, Cap: lastPause}
	for {
		tryCtx, cancel := context.WithTimeout(ctx, tryTimeout)
		err := try(tryCtx)
		cancel()
		if err == nil {
			return nil
		}
		if bad.Fail() && ctx.Err() == nil {
			report(ctx, err)
		}
		timer := s.cfg.Clock.NewTimer(backoff.Next())
		select {
		case <-timer.Chan():
		case w := <-s.windows:
			timer.Stop()
			return &w
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// decide makes one attempt to decide about w and write the decision. An earlier attempt may have done part of
// this, even if it failed: its decision is found in the ledger by orchestrator and time. If the ledger has a decision
// after it, the decision is overtaken and is not carried out.
//
// The decision is written to the ledger before it is carried out. So two orchestrators whose ticks
// coincide make only one decision, and a death between the two steps is noticed.
func (s *Scaler) decide(ctx context.Context, w window, sample Sample) (*Decision, error) {
	d := Decision{At: w.at, By: s.cfg.Name}
	l, version, err := s.load(ctx)
	if err == nil {
		if i := l.find(&d); i >= 0 {
			d = l.Decisions[i]
			if overtaken := i < len(l.Decisions)-1; d.Done || overtaken {
				return &d, nil
			}
			return &d, s.conclude(ctx, &d, &l, version)
		}
		if s.inWindowOfAnother(&l, w) {
			l.HandedOver += w.reads
			return nil, s.save(ctx, l, version)
		}
	}
	sample.Reads = w.reads + l.HandedOver
	settings, settingsErr := s.follow(ctx)
	wantedErr := s.addWanted(&sample, settings)
	s.propose(&d, settings, sample, l.samples())
	if err = cmp.Or(err, settingsErr, wantedErr); err != nil {
		return &d, err
	}
	l.HandedOver = 0
	for _, older := range s.takeUndone() {
		l.put(older)
	}
	l.put(d)
	if err = s.save(ctx, l, version); err != nil {
		return &d, err
	}
	s.forgetUndone()
	return &d, s.conclude(ctx, &d, &l, version+1)
}

// addWanted adds the wanted number of slaves to the sample. If the number is not known, it returns an error for the policy
// latency, which may keep that number.
func (s *Scaler) addWanted(sample *Sample, settings Settings) error {
	if sample.Desired = s.cfg.Cluster.Desired(); sample.Desired > 0 {
		return nil
	}
	sample.Missing = append(slices.Clone(sample.Missing), "wanted number")
	if settings.Policy == (Latency{}).Name() {
		return errors.New("the wanted number of slaves is not known")
	}
	return nil
}

func (s *Scaler) conclude(ctx context.Context, d *Decision, l *ledger, version coord.Version) error {
	if err := s.finish(ctx, l, version, *d); err != nil {
		return err
	}
	d.Done = true
	return nil
}

// finish writes the wanted number of slaves, and then marks the decision as done in the ledger.
func (s *Scaler) finish(ctx context.Context, l *ledger, version coord.Version, d Decision) error {
	if err := s.cfg.Cluster.SetSlaves(ctx, d.Wanted); err != nil {
		return err
	}
	d.Done = true
	l.put(d)
	return s.save(ctx, *l, version)
}

// follow returns the settings in force. If they cannot be read, it returns the settings of the last decision and an
// error; then the new decision is not carried out.
func (s *Scaler) follow(ctx context.Context) (Settings, error) {
	settings, _, err := s.settings(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.used = settings
	}
	return s.used, err
}

// propose fills in d with the proposals of all policies for the sample.
func (s *Scaler) propose(d *Decision, settings Settings, sample Sample, before []Sample) {
	policies := settings.Policies()
	p := policies[0].Propose(sample, before)
	d.Policy, d.Count, d.Wanted, d.Sample = p.Policy, sample.Reads, p.Wanted, sample
	d.Why = fmt.Sprintf("%s; window of %v", p.Why, s.cfg.Period)
	d.Would = []Proposal{}
	for _, other := range policies[1:] {
		d.Would = append(d.Would, other.Propose(sample, before))
	}
}

// inWindowOfAnother reports whether the newest decision is another orchestrator's and not much more than a period old. Each
// orchestrator has its own timer; so one of them decides, and all others hand over their reads before its next tick. The
// clocks may differ in either direction.
func (s *Scaler) inWindowOfAnother(l *ledger, w window) bool {
	d := l.newest()
	return d != nil && d.By != s.cfg.Name && w.at.Sub(d.At).Abs() < s.cfg.Period*11/10
}

// load reads the ledger. A ledger that has not been written yet is empty.
func (s *Scaler) load(ctx context.Context) (ledger, coord.Version, error) {
	data, version, err := s.cfg.Cluster.Value(ctx, ledgerName)
	if errors.Is(err, coord.ErrNone) {
		return ledger{}, 0, nil
	}
	if err != nil {
		return ledger{}, 0, fmt.Errorf("read scaling ledger: %w", err)
	}
	l, err := decodeLedger(data)
	if err != nil {
		return ledger{}, 0, err
	}
	s.seen(l)
	return l, version, nil
}

func (s *Scaler) save(ctx context.Context, l ledger, version coord.Version) error {
	data, err := l.encode()
	if err != nil {
		return err
	}
	if err = s.cfg.Cluster.SetValue(ctx, ledgerName, data, version); err != nil {
		return fmt.Errorf("write scaling ledger: %w", err)
	}
	s.seen(l)
	return nil
}

func (s *Scaler) seen(l ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = ledger{HandedOver: l.HandedOver, Decisions: slices.Clone(l.Decisions)}
}

// remember keeps a decision that may be missing in the coordinator.
func (s *Scaler) remember(d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.find(&d) >= 0 {
		return
	}
	if s.undone = append(s.undone, d); len(s.undone) > keptDecisions {
		s.undone = slices.Delete(s.undone, 0, 1)
	}
}

func (s *Scaler) takeUndone() []Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.undone)
}

func (s *Scaler) forgetUndone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undone = nil
}
