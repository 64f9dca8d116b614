package load

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"rideshare/bench/ledger"
)

// book records what this run has written, as far as the answers show. Later answers are compared with the book. It is
// safe for concurrent use.
type book struct {
	run string // part of every name, so that runs on one system never collide

	users  ledger.Writes[string] // by name
	writes ledger.Writes[int]    // to the table of raw writes, by number

	mu     sync.Mutex // guards everything below
	random *rand.Rand
	pool   []string // users that create and join rides
	rides  []*ride
	known  []*ride // those with an id
	routes []route // between which rides go
	count  int     // of everything created, for names
}

// route is where rides go from and to.
type route struct{ source, destination int }

// ride is one ride that this run has tried to create. Its creator and timestamp together are unique.
type ride struct {
	route
	creator, timestamp string

	// id (0 if no answer had it) and fate are set before the ride is added to the book.
	id   int64
	fate ledger.Fate
	// joined is guarded by the book's mu.
	joined map[string]ledger.Fate // by user
}

// Areas are numbers from 1 to 198. Rides share a limited number of routes: few enough that listings are not empty, and
// enough that listings do not grow without bound.
const (
	areas     = 198
	routesMax = 1000
)

func newBook(run string, seed uint64) *book {
	l := &book{
		run: run, random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // load, not secrets.
	}
	for range routesMax {
		from := 1 + l.random.IntN(areas)
		to := 1 + (from+l.random.IntN(areas-1))%areas
		l.routes = append(l.routes, route{from, to})
	}
	return l
}

// kind draws the kind of the next request.
func (l *book) kind(mix Mix) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return mix.pick(l.random.IntN(100))
}

// number returns a number that is unique in this run.
func (l *book) number() int {
	l.count++
	return l.count
}

// newUser returns the name of a new user.
func (l *book) newUser() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprintf("load-%s-%d", l.run, l.number())
	l.users.Note(name, ledger.Unknown)
	return name
}

// enroll adds a user to the pool that creates and joins rides.
func (l *book) enroll(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users.Note(name, ledger.Applied)
	l.pool = append(l.pool, name)
}

// user draws a user from the pool.
func (l *book) user() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pool[l.random.IntN(len(l.pool))]
}

// far is the time of the rides: late enough to be in every listing, whatever the clock of the rides service.
var far = time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)

// newRide returns a new ride that does not exist yet.
func (l *book) newRide() *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &ride{
		creator: l.pool[l.random.IntN(len(l.pool))], route: l.routes[l.random.IntN(len(l.routes))],
		timestamp: far.Add(time.Duration(l.number()) * time.Second).Format("02-01-2006:05-04-15"),
		joined:    map[string]ledger.Fate{},
	}
	l.rides = append(l.rides, r)
	return r
}

// noteRide records the outcome of creating a ride, and its id if it exists.
func (l *book) noteRide(r *ride, f ledger.Fate, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.fate, r.id = f, id
	if f == ledger.Applied {
		l.known = append(l.known, r)
	}
}

// ride draws one of the acknowledged rides, or returns nil.
func (l *book) ride() *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) == 0 {
		return nil
	}
	return l.known[l.random.IntN(len(l.known))]
}

// newJoin draws a ride and a user who is not in it, or returns nil after a few attempts.
func (l *book) newJoin() (r *ride, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 20 {
		if len(l.known) == 0 {
			return nil, ""
		}
		r, user = l.known[l.random.IntN(len(l.known))], l.pool[l.random.IntN(len(l.pool))]
		if before, tried := r.joined[user]; user != r.creator && (!tried || before == ledger.Refused) {
			r.joined[user] = ledger.Unknown
			return r, user
		}
	}
	return nil, ""
}

// noteJoin records the outcome of a join.
func (l *book) noteJoin(r *ride, user string, f ledger.Fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.joined[user] = f
}

// joins returns a copy of the known joins of a ride.
func (l *book) joins(r *ride) map[string]ledger.Fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(r.joined)
}

// newWrite returns the number of a new raw write.
func (l *book) newWrite() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.number()
	l.writes.Note(n, ledger.Unknown)
	return n
}
