package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"rideshare/internal/coord"
)

// member is an orchestrator's report of its demand. Beat changes with each report.
type member struct {
	Beat  uint64          `json:"beat"`
	Asked [classes]uint64 `json:"asked"`
}

// sharing is the state of the goroutine that reports the demand and reads the share.
type sharing struct {
	beat    uint64
	asked   [demandReports][classes]uint64 // requests of the last demandReports periods
	leading bool
	leases  leases
	heard   map[string]heard // used by the leader only
}

// heard is the last beat of an orchestrator, and when the leader first saw it.
type heard struct {
	beat uint64
	at   time.Time
}

// share reports this orchestrator's demand, reads the shares and, if this orchestrator is the leader, writes new ones.
// The report is written before the shares are read, so that the shares are no older than began.
func (g *Gate) share(ctx context.Context, s *sharing) {
	g.arrivals.mu.Lock()
	on := g.arrivals.shares.on
	g.arrivals.mu.Unlock()
	if !on {
		*s = sharing{}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	began := g.cfg.Now()
	all, err := g.report(ctx, s)
	var present map[string]parts
	var version coord.Version
	if err == nil {
		version, err = g.read(ctx, sharesName, &present)
	}
	if err == nil {
		err = g.lead(ctx, s, leading{all, present, version})
	}
	if err != nil {
		g.arrivals.keepShare(began, g.cfg.Now)
	} else if p, ok := present[g.cfg.Name]; ok {
		g.arrivals.share(p, began, g.cfg.Now)
	}
}

// report writes this orchestrator's demand, and returns the reports of all orchestrators.
func (g *Gate) report(ctx context.Context, s *sharing) (all map[string]member, err error) {
	s.beat++
	a := &g.arrivals
	a.mu.Lock()
	s.asked[s.beat%uint64(demandReports)], a.shares.asked = a.shares.asked, [classes]uint64{}
	a.mu.Unlock()
	me := member{Beat: s.beat}
	for _, asked := range s.asked {
		for c, n := range asked {
			me.Asked[c] += n
		}
	}
	for {
		all = nil
		version, err := g.read(ctx, demandName, &all)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]member{}
		}
		all[g.cfg.Name] = me
		if s.leading {
			maps.DeleteFunc(all, func(name string, _ member) bool { return name != g.cfg.Name && s.gone(name, g.cfg.Now()) })
		}
		if err = g.write(ctx, demandName, all, version); !errors.Is(err, coord.ErrVersion) {
			return all, err
		}
	}
}

// gone reports whether an orchestrator has not reported for longer than silent.
func (s *sharing) gone(name string, now time.Time) bool {
	h, known := s.heard[name]
	return known && now.Sub(h.at) > silent
}

// leading is what lead decides from.
type leading struct {
	all     map[string]member
	present map[string]parts
	version coord.Version
}

// lead writes the shares if this orchestrator is the leader and a share must change.
func (g *Gate) lead(ctx context.Context, s *sharing, of leading) error {
	now := g.cfg.Now()
	if !g.cfg.Store.Leads() {
		s.leading = false
		return nil
	}
	if !s.leading {
		// The previous leader may have lowered shares just before.
		s.leading, s.leases, s.heard = true, leases{lowered: now}, map[string]heard{}
	}
	asked := map[string][classes]uint64{}
	for name, m := range of.all {
		if h, known := s.heard[name]; !known || h.beat != m.Beat {
			s.heard[name] = heard{m.Beat, now}
		}
		if !s.gone(name, now) {
			asked[name] = m.Asked
		}
	}
	next, shares, write := s.leases.next(now, of.present, asked)
	if !write {
		s.leases = next
		return nil
	}
	if err := g.write(ctx, sharesName, shares, of.version); err != nil {
		s.leases.lowered = g.cfg.Now() // the value may have been written
		return err
	}
	s.leases = next
	if next.lowered.Equal(now) {
		s.leases.lowered = g.cfg.Now() // orchestrators may have read the old shares until now
	}
	return nil
}

// read decodes a value of the coordinator into dst. If the value does not exist, dst stays as it is.
func (g *Gate) read(ctx context.Context, name string, dst any) (coord.Version, error) {
	text, version, err := g.cfg.Store.Value(ctx, name)
	if errors.Is(err, coord.ErrNone) {
		return 0, nil
	}
	if err == nil {
		err = json.Unmarshal(text, dst)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return version, nil
}

func (g *Gate) write(ctx context.Context, name string, v any, old coord.Version) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = g.cfg.Store.SetValue(ctx, name, text, old)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// ShareStatus is what GET /api/v1/admission shows about this orchestrator's share: its part of the limits of each
// class, in [0, 1], and whether the share is valid now.
type ShareStatus struct {
	Read  float64 `json:"read"`
	Write float64 `json:"write"`
	Async float64 `json:"async"`
	Valid bool    `json:"valid"`
}

func (a *arrivals) shareStatus(now time.Time) *ShareStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := &a.shares; s.on {
		return &ShareStatus{s.parts[Read], s.parts[Write], s.parts[Async], now.Before(s.until)}
	}
	return nil
}
