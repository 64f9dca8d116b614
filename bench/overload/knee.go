package overload

import (
	"context"
	"fmt"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/orchestrator/admission"
)

const (
	// answeredShare is the share of requests that are answered at the knee.
	answeredShare = 0.98
	// kneeFrom is where the search begins, in requests a second. The search doubles the rate until it is too high, and then
	// halves the remaining interval kneeSteps times.
	kneeFrom, kneeSteps = 100, 4
	// The length of one step of the search is that of a stage divided by kneePart, but at least kneeLeast.
	kneePart  = 12
	kneeLeast = 2 * time.Second
)

// knee returns the highest rate of an open loop at which 98 % of the requests are answered 200 within the step.
func (s *stage) knee(ctx context.Context, work string) (float64, error) {
	if s.cfg.Knee > 0 {
		return s.cfg.Knee, nil
	}
	holds := func(rate float64) (bool, error) {
		got, err := s.measure(ctx, stream{stage: "search of the knee", work: work, loop: loadgen.Open, level: rate, length: max(s.cfg.Length/kneePart, kneeLeast)})
		if err != nil {
			return false, err
		}
		return got[0].rate() >= answeredShare*rate, nil
	}
	low, high := 0.0, float64(kneeFrom)
	for {
		ok, err := holds(high)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		low, high = high, 2*high
	}
	for range kneeSteps {
		middle := (low + high) / 2
		ok, err := holds(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	if low == 0 {
		return 0, fmt.Errorf("the system does not hold %g %ss a second", high, work)
	}
	s.say("knee of the work %s: %.0f a second", work, low)
	return low, nil
}

// The goals of N1 and N2. Those of N2 depend on figures that are measured first.
const (
	overloadShare = 0.95 // of the knee is accepted at 3 times the knee
	overloadP99   = 3    // times the p99 of the unloaded stage
	unsentShare   = 1    // % of the overload is not sent
	restShare     = 0.85 // of what the modest user leaves goes to the greedy user
	modestP99     = 2    // times the p99 of the modest user alone, plus the time of one full message
	fullMessage   = 256  // operations
)

// playKnee plays scene N1.
func playKnee(ctx context.Context, s *stage) error {
	if s.cfg.Short {
		return s.playKneeShort(ctx)
	}
	for _, work := range s.cfg.Works {
		knee, err := s.knee(ctx, work)
		if err != nil {
			return err
		}
		got := map[string]figures{}
		for _, part := range []struct {
			name  string
			times float64
		}{{"unloaded", 0.1}, {"knee", 1}, {"overload", 3}, {"afterwards", 1}} {
			f, err := s.measure(ctx, stream{stage: part.name, work: work, loop: loadgen.Open, level: part.times * knee, length: s.cfg.Length})
			if err != nil {
				return err
			}
			got[part.name] = f[0]
		}
		over := got["overload"]
		s.result.sent(work+" at 3 times the knee", over)
		s.result.atLeast(work+": accepted a second at 3 times the knee", over.rate(), overloadShare*knee)
		s.result.atMost(work+": p99 of accepted at 3 times the knee, ms", ms(over.accepted.P99), overloadP99*ms(got["unloaded"].accepted.P99))
	}
	return nil
}

// The short forms cause overload by a low limit of the lanes instead of a high rate, and end after a number of requests.
const (
	shortLane = 16 // operations
	few, many = 2, 64
	perClient = 8 // requests
)

// brief returns the short form of a stream.
func brief(name, user, work string, clients int) stream {
	return stream{stage: name, user: user, work: work, loop: loadgen.Closed, level: float64(clients), length: endless, most: int64(perClient * clients)}
}

// lowLanes sets the limit of the lanes to shortLane, unless Config.LaneLimit sets another.
func (s *stage) lowLanes(ctx context.Context) error {
	if s.cfg.LaneLimit != nil {
		return nil
	}
	limit := admission.LaneSetting{Limit: shortLane}
	return s.patch(ctx, "lanes", map[string]any{"read": limit, "write": limit})
}

// playKneeShort judges that overload is refused with a reason, and that all other requests are served.
func (s *stage) playKneeShort(ctx context.Context) error {
	if err := s.lowLanes(ctx); err != nil {
		return err
	}
	for _, work := range s.cfg.Works {
		for _, part := range []struct {
			name    string
			clients int
		}{{"few clients", few}, {"many clients", many}, {"few clients again", few}} {
			f, err := s.measure(ctx, brief(part.name, "", work, part.clients))
			if err != nil {
				return err
			}
			name := work + ", " + part.name
			s.result.check(name+": failed", int(f[0].failed.Count), 0)
			if part.clients <= shortLane {
				s.result.check(name+": refused", int(f[0].refused.Count), 0)
			}
			s.result.check(name+": refused without a reason of the lane", int(f[0].refused.Count-f[0].refused.Failures[laneFull]), 0)
			s.result.served(name, f[0])
		}
	}
	return nil
}

// playTwoUsers plays scene N2, with the greedy user A and the modest user B.
func playTwoUsers(ctx context.Context, s *stage) error {
	for _, work := range s.cfg.Works {
		if err := s.twoUsers(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) twoUsers(ctx context.Context, work string) error {
	greedy, modest := brief("both", "A", work, many), brief("alone", "B", work, few)
	knee := 0.0
	if s.cfg.Short {
		if err := s.lowLanes(ctx); err != nil {
			return err
		}
	} else {
		var err error
		if knee, err = s.knee(ctx, work); err != nil {
			return err
		}
		greedy = stream{stage: "both", user: "A", work: work, loop: loadgen.Open, level: 10 * knee, length: s.cfg.Length}
		modest = stream{stage: "alone", user: "B", work: work, loop: loadgen.Open, level: knee / 10, length: s.cfg.Length}
	}
	alone, err := s.measure(ctx, modest)
	if err != nil {
		return err
	}
	modest.stage = "both"
	both, err := s.measure(ctx, greedy, modest)
	if err != nil {
		return err
	}
	a, b := both[0], both[1]
	s.result.check(work+": refused of B", int(b.refused.Count), 0)
	s.result.check(work+": failed of B", int(b.failed.Count), 0)
	s.result.served(work+" of B", b)
	if s.cfg.Short {
		s.result.check(work+": failed of A", int(a.failed.Count), 0)
		return nil
	}
	s.result.sent(work+" of A", a)
	s.result.atMost(work+": p99 of B, ms", ms(b.accepted.P99), modestP99*ms(alone[0].accepted.P99)+1000*fullMessage/knee)
	s.result.atLeast(work+": accepted of A a second", a.rate(), restShare*(knee-b.rate()))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
