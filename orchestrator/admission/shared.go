package admission

import (
	"maps"
	"math"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// sharesName is the coordinator's value with the shares, which the leader writes. demandName is the value with the
	// demand, to which each orchestrator adds its own.
	sharesName = "admissionshares"
	demandName = "admissiondemand"
	// sharePeriod is how often an orchestrator reports its demand and reads its share.
	sharePeriod = 500 * time.Millisecond
	// lease is how long a share counts, from the beginning of the call that read it. After the leader has lowered
	// shares, it waits for longer than this before it raises others.
	lease = 2 * time.Second
	// demandReports is how many reports make up the demand: those of the last 10 s.
	demandReports = int(10 * time.Second / sharePeriod)
	// writePause is the shortest time between two writes of the leader.
	writePause = time.Second
	// silent is how long an orchestrator may send no report before its share goes to the others.
	silent = 3 * time.Second
	// evenly is the part of a limit that is shared equally. A change of a share by less than worth is not written.
	evenly, worth = 0.1, 0.005
)

// parts are an orchestrator's parts of the limits of each class, in [0, 1].
type parts [classes]float64

// shareOut returns the parts of each orchestrator. A tenth of a limit is shared equally, the rest in proportion to the
// requests of the last 10 s. Without requests all of it is shared equally.
func shareOut(asked map[string][classes]uint64) map[string]parts {
	var sum [classes]uint64
	for _, n := range asked {
		for c := range classes {
			sum[c] += n[c]
		}
	}
	out, each := map[string]parts{}, 1/float64(len(asked))
	for name, n := range asked {
		var p parts
		for c := range classes {
			p[c] = each
			if sum[c] > 0 {
				p[c] = evenly*each + (1-evenly)*float64(n[c])/float64(sum[c])
			}
		}
		out[name] = p
	}
	return out
}

// leases is the leader's state for changing shares. A change takes two writes: the first lowers shares, the second,
// more than a lease later, raises others. So the sum of the shares that count never exceeds a limit.
type leases struct {
	target  map[string]parts // the shares that the second write sets; nil if no change is under way
	lowered time.Time        // when shares were last lowered, or when this orchestrator became the leader
	wrote   time.Time
}

// next returns the shares to write now. present are the shares written last, asked is the demand of each orchestrator.
// write is false if there is nothing to write.
func (l leases) next(now time.Time, present map[string]parts, asked map[string][classes]uint64) (_ leases, shares map[string]parts, write bool) {
	if now.Sub(l.wrote) < writePause || len(asked) == 0 {
		return l, nil, false
	}
	if l.target == nil {
		l.target = shareOut(asked)
		if near(l.target, present) {
			l.target = nil
			return l, nil, false
		}
	}
	lowered := map[string]parts{}
	for name, p := range present {
		if t, stays := l.target[name]; stays {
			for c := range classes {
				p[c] = min(p[c], t[c])
			}
			lowered[name] = p
		}
	}
	switch {
	case !maps.Equal(lowered, present):
		l.lowered, l.wrote = now, now
		return l, lowered, true
	case now.Sub(l.lowered) <= lease:
		return l, nil, false
	}
	shares, l.target, l.wrote = l.target, nil, now
	return l, shares, true
}

// near reports whether no share in a and b differs by more than worth.
func near(a, b map[string]parts) bool {
	return maps.EqualFunc(a, b, func(x, y parts) bool {
		for c := range classes {
			if math.Abs(x[c]-y[c]) > worth {
				return false
			}
		}
		return true
	})
}

// shares is an orchestrator's own share.
type shares struct {
	on    bool
	parts parts
	until time.Time // the end of the lease; zero before the first share
	asked [classes]uint64
	// models are buckets with the users' limits from which no token is ever taken. A new user's bucket starts with as
	// many tokens as its model has.
	models [classes]*bucket
}

// usable returns an error while limits are shared and this orchestrator has no valid share.
func (s *shares) usable(now time.Time) error {
	if !s.on || now.Before(s.until) {
		return nil
	}
	return dbaas.Refuse(dbaas.ReasonClassRate, time.Second, "this orchestrator does not know its share of the limit at the moment")
}

// level makes a new user's buckets as full as if they had been there since the share began.
func (s *shares) level(buckets [classes]*bucket, now time.Time) {
	for c, b := range buckets {
		if b != nil {
			b.set(int(s.models[c].tokens.TokensAt(now)), now)
		}
	}
}

// share sets this orchestrator's share, which was read by a call that began at began. If the lease had lapsed, or there
// was no share yet, the buckets start empty. clock is read under the lock, so that time never goes backwards for a bucket.
func (a *arrivals) share(p parts, began time.Time, clock func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	s := &a.shares
	if !s.on {
		return
	}
	lapsed := !now.Before(s.until)
	s.parts, s.until = p, began.Add(lease)
	set := func(buckets [classes]*bucket) {
		for c, b := range buckets {
			if b == nil {
				continue
			}
			b.share(p[c], now)
			if lapsed {
				b.set(0, now)
			}
		}
	}
	set(a.totals)
	set(s.models)
	for _, u := range a.users {
		set(u.buckets)
	}
}

// keepShare extends the share while the coordinator is unavailable. The call that failed began at began. A share that had
// lapsed before the call stays lapsed, since another orchestrator may have it now. A share also lapses if the call lasted
// longer than a lease: the process was paused then.
func (a *arrivals) keepShare(began time.Time, clock func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	if began.Before(a.shares.until) && now.Sub(began) < lease {
		a.shares.until = now.Add(lease)
	}
}
