package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

// admitInflight returns an error if a new request must be refused. n requests are in flight, own of them are of the
// same user, and most is the limit. A user may have three quarters of the limit, so that other users always find room.
func admitInflight(n, own, most int) error {
	switch {
	case n >= most:
		return dbaas.Refuse(dbaas.ReasonInflight, 0, "too many requests are in flight")
	case own >= max(1, most*3/4):
		return dbaas.Refuse(dbaas.ReasonUserInflight, 0, "this user has too many requests in flight")
	}
	return nil
}

// maxUsers is how many users are tracked. It is twice the number of users that httpapi.Users distinguishes within an
// hour.
const maxUsers = 20_000

// otherUsers is the user that all users beyond maxUsers share.
const otherUsers = "other"

// user is the state of a user.
type user struct {
	name     string
	inflight int
	requests uint64
	refused  uint64
	buckets  [classes]*bucket // nil if the class is not limited
}

// arrivals is the state of the stages before a request's body is read.
type arrivals struct {
	mu       sync.Mutex // guards the fields below
	rules    rules
	inflight int
	users    map[string]*user
	totals   [classes]*bucket
	shares   shares
}

// use applies new rules. Buckets whose limit has not changed keep their tokens. clock is read under the lock.
func (a *arrivals) use(r rules, clock func() time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	a.rules = r
	if a.shares.on != r.shared {
		a.shares = shares{on: r.shared} // requests that came before the limits were shared do not count as demand
	}
	a.totals = a.changed(a.totals, r.total, now)
	a.shares.models = a.changed(a.shares.models, r.user, now)
	for _, u := range a.users {
		u.buckets = a.changed(u.buckets, r.user, now)
	}
}

// changed returns the buckets of limits. A bucket of old is kept if its limit has not changed.
func (a *arrivals) changed(old [classes]*bucket, limits [classes]Limit, now time.Time) [classes]*bucket {
	for c, limit := range limits {
		switch {
		case limit.Rate == 0:
			old[c] = nil
		case old[c] == nil || old[c].limit != limit || old[c].shared != a.shares.on:
			old[c] = newBucket(limit, now)
			if a.shares.on {
				old[c].share(a.shares.parts[c], now)
				old[c].set(0, now)
			}
		}
	}
	return old
}

// of returns the user of this name. If there is no room for a new user, of first forgets the users with full buckets
// and without requests in flight. If there is still no room, it returns the user that all others share.
func (a *arrivals) of(name string, now time.Time) *user {
	if u := a.users[name]; u != nil {
		return u
	}
	if len(a.users) >= maxUsers {
		for other, u := range a.users {
			if u.inflight == 0 && u.buckets[Read].full(now) && u.buckets[Write].full(now) && u.buckets[Async].full(now) {
				delete(a.users, other)
			}
		}
	}
	if len(a.users) >= maxUsers && name != otherUsers {
		return a.of(otherUsers, now)
	}
	u := &user{name: name}
	u.buckets = a.changed(u.buckets, a.rules.user, now)
	if a.shares.on {
		a.shares.level(u.buckets, now)
	}
	a.users[name] = u
	return u
}

// Guest is a request between Arrive and Leave. The zero Guest belongs to a nil Gate.
type Guest struct {
	user    *user
	class   Class
	quota   Quota
	limited bool
}

// Quota returns the state of the limit when the request arrived, for the response headers: the user's limit, or else
// the class's. ok is false if there is no limit.
func (g *Guest) Quota() (q Quota, ok bool) { return g.quota, g.limited }

// Arrive admits a request of a user before its body is read, or returns why it is refused. If the error is nil, the
// caller must call Leave. Arrive reads the clock under the lock, so that time never goes backwards for a bucket, and
// only if a bucket needs it, since reading the clock costs time.
func (g *Gate) Arrive(name string, class Class) (Guest, error) {
	if g == nil {
		return Guest{}, nil
	}
	a := &g.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	var now time.Time
	if a.rules.limited || len(a.users) >= maxUsers {
		now = g.cfg.Now()
	}
	u := a.of(name, now)
	u.requests++
	a.shares.asked[class]++
	err := admitInflight(a.inflight, u.inflight, a.rules.inflight)
	b := cmp.Or(u.buckets[class], a.totals[class])
	if err == nil && b != nil { // a class without a limit needs no share of it
		if err = a.shares.usable(now); err == nil {
			err = takeBoth(u.buckets[class], a.totals[class], now)
		}
	}
	guest := Guest{user: u, class: class}
	if b != nil {
		guest.quota, guest.limited = b.quota(class, now), true
	}
	if err != nil {
		u.refused++
		g.counts.add(class, err)
		return guest, err
	}
	a.inflight++
	u.inflight++
	return guest, nil
}

// Leave ends a request that Arrive admitted. err is the error that it was answered with, or nil.
func (g *Gate) Leave(guest Guest, err error) {
	if g == nil {
		return
	}
	g.counts.add(guest.class, err)
	a := &g.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inflight--
	guest.user.inflight--
	if dbaas.CodeOf(err) == dbaas.CodeQuota {
		guest.user.refused++
	}
}

// UserStatus is what GET /api/v1/admission shows about a user.
type UserStatus struct {
	User     string `json:"user"`
	Inflight int    `json:"inflight"`
	Requests uint64 `json:"requests"`
	Refused  uint64 `json:"refused"`
}

// shownUsers is how many users GET /api/v1/admission shows.
const shownUsers = 50

// busiest returns the shownUsers users with the most requests in flight, then those with the most requests, and the
// total number of requests in flight.
func (a *arrivals) busiest() (all []UserStatus, inflight int) {
	a.mu.Lock()
	all = make([]UserStatus, 0, len(a.users))
	for _, u := range a.users {
		all = append(all, UserStatus{u.name, u.inflight, u.requests, u.refused})
	}
	inflight = a.inflight
	a.mu.Unlock()
	slices.SortFunc(all, func(x, y UserStatus) int {
		return cmp.Or(cmp.Compare(y.Inflight, x.Inflight), cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.User, y.User))
	})
	return all[:min(len(all), shownUsers)], inflight
}

// limits returns the state of the limits of each limited class, by its name. clock is read under the lock.
func (a *arrivals) limits(clock func() time.Time) map[string]LimitStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	all := map[string]LimitStatus{}
	for c := range classes {
		var s LimitStatus
		if b := a.totals[c]; b != nil {
			left := b.quota(Class(c), now).Left
			s.Left = &left
		}
		if a.rules.user[c].Rate > 0 {
			empty := 0
			for _, u := range a.users {
				if u.buckets[c].missing(now) > 0 {
					empty++
				}
			}
			s.EmptyUsers = &empty
		}
		if s != (LimitStatus{}) {
			all[Class(c).String()] = s
		}
	}
	return all
}
