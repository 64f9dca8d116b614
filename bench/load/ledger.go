package load

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// ledger records what this run has written, as far as it knows. Answers are compared with it. It is safe for concurrent
// use.
type ledger struct {
	run string // part of every name, so that runs on one system never collide

	mu     sync.Mutex // guards everything below
	random *rand.Rand
	pool   []string        // users that create and join rides
	users  map[string]fate // by name
	rides  []*ride
	known  []*ride      // those with an id
	routes []route      // between which rides go
	writes map[int]fate // to the table of raw writes, by number
	count  int          // of everything created, for names
}

// route is where rides go from and to.
type route struct{ source, destination int }

// ride is one ride that this run has tried to create. Its creator and timestamp together are unique.
type ride struct {
	route
	creator, timestamp string

	// id (0 if no answer had it) and fate are set before the ride is added to the ledger.
	id   int64
	fate fate
	// joined is guarded by the ledger's mu.
	joined map[string]fate // by user
}

// Areas are numbers from 1 to 198. Rides share a limited number of routes: few enough that listings are not empty, and
// enough that listings do not grow without bound.
const (
	areas     = 198
	routesMax = 1000
)

func newLedger(run string, seed uint64) *ledger {
	l := &ledger{
		run: run, random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // load, not secrets.
		users: map[string]fate{}, writes: map[int]fate{},
	}
	for range routesMax {
		from := 1 + l.random.IntN(areas)
		to := 1 + (from+l.random.IntN(areas-1))%areas
		l.routes = append(l.routes, route{from, to})
	}
	return l
}

// kind draws the kind of the next request.
func (l *ledger) kind(mix Mix) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return mix.pick(l.random.IntN(100))
}

// number returns a number that is unique in this run.
func (l *ledger) number() int {
	l.count++
	return l.count
}

// newUser returns the name of a new user.
func (l *ledger) newUser() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprintf("load-%s-%d", l.run, l.number())
	l.users[name] = unknown
	return name
}

// noteUser records the outcome of creating a user.
func (l *ledger) noteUser(name string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[name] = f
}

// enroll adds a user to the pool that creates and joins rides.
func (l *ledger) enroll(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[name] = applied
	l.pool = append(l.pool, name)
}

// user draws a user from the pool.
func (l *ledger) user() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pool[l.random.IntN(len(l.pool))]
}

// far is the time of the rides: late enough to be in every listing, whatever the clock of the rides service.
var far = time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)

// newRide returns a new ride that does not exist yet.
func (l *ledger) newRide() *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &ride{
		creator: l.pool[l.random.IntN(len(l.pool))], route: l.routes[l.random.IntN(len(l.routes))],
		timestamp: far.Add(time.Duration(l.number()) * time.Second).Format("02-01-2006:05-04-15"),
		joined:    map[string]fate{},
	}
	l.rides = append(l.rides, r)
	return r
}

// noteRide records the outcome of creating a ride, and its id if it exists.
func (l *ledger) noteRide(r *ride, f fate, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.fate, r.id = f, id
	if f == applied {
		l.known = append(l.known, r)
	}
}

// ride draws one of the acknowledged rides, or returns nil.
func (l *ledger) ride() *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) == 0 {
		return nil
	}
	return l.known[l.random.IntN(len(l.known))]
}

// newJoin draws a ride and a user who is not in it, or returns nil after a few attempts.
func (l *ledger) newJoin() (r *ride, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 20 {
		if len(l.known) == 0 {
			return nil, ""
		}
		r, user = l.known[l.random.IntN(len(l.known))], l.pool[l.random.IntN(len(l.pool))]
		if before, tried := r.joined[user]; user != r.creator && (!tried || before == refused) {
			r.joined[user] = unknown
			return r, user
		}
	}
	return nil, ""
}

// noteJoin records the outcome of a join.
func (l *ledger) noteJoin(r *ride, user string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.joined[user] = f
}

// joins returns a copy of the known joins of a ride.
func (l *ledger) joins(r *ride) map[string]fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(r.joined)
}

// newWrite returns the number of a new raw write.
func (l *ledger) newWrite() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.number()
	l.writes[n] = unknown
	return n
}

// noteWrite records the outcome of a raw write.
func (l *ledger) noteWrite(n int, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[n] = f
}
