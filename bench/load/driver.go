package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
)

// table is the table of raw writes. Its only unique key is the row id, so that a write that is applied twice leaves two
// rows.
const table = "load_writes"

// password is the password of every user of a run: a SHA-1, as clients send it.
const password = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3" //nolint:gosec // of users made up for the load.

// driver sends requests of each kind, one at a time, and checks the answers.
type driver struct {
	client *client
	book   *book
	mix    Mix

	mu    sync.Mutex // guards wrong
	wrong ledger.Findings
}

// call sends the next request of the mix.
func (d *driver) call(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
	switch kind := d.book.kind(d.mix); kind {
	case kindCreateUser:
		return d.createUser(ctx)
	case kindJoin:
		return d.join(ctx)
	case kindListing:
		return d.listing(ctx)
	case kindRide:
		return d.ride(ctx)
	case kindRead:
		return d.read(ctx)
	case kindWrite:
		return d.write(ctx)
	default:
		return d.createRide(ctx)
	}
}

// judge returns the outcome of a reply that should have status want. An answer with that status in which check finds an
// error is a finding. So is an answer which says that the request is invalid.
func (d *driver) judge(kind string, r api.Reply, want int, check func() error) loadgen.Outcome {
	o := loadgen.Outcome{Kind: kind, Failure: r.Failure(want), Pause: r.Pause()}
	var err error
	switch {
	case o.Failure == "" && check != nil:
		if err = check(); err != nil {
			o.Failure = "wrong answer"
		}
	case o.Failure != "" && r.Wrong():
		err = fmt.Errorf("got %v, want %d", r, want)
	}
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wrong.Add("%s: %v", kind, err)
	}
	return o
}

func (d *driver) createUser(ctx context.Context) loadgen.Outcome {
	name := d.book.newUser()
	r := d.putUser(ctx, name)
	d.book.users.Note(name, r.Fate(http.StatusCreated))
	return d.judge(kindCreateUser, r, http.StatusCreated, nil)
}

func (d *driver) putUser(ctx context.Context, name string) api.Reply {
	return d.client.users.Call(ctx, http.MethodPut, "/api/v1/users",
		map[string]string{"username": name, "password": password}, d.client.users.Key()...)
}

func (d *driver) createRide(ctx context.Context) loadgen.Outcome {
	ride := d.book.newRide()
	r := d.client.rides.Call(ctx, http.MethodPost, "/api/v1/rides", map[string]any{
		"created_by": ride.creator, "timestamp": ride.timestamp, "source": ride.source, "destination": ride.destination,
	}, d.client.rides.Key()...)
	f := r.Fate(http.StatusCreated)
	id, err := newRideID(r)
	if f == ledger.Applied && err != nil {
		f = ledger.Unknown // it may exist, under an unknown id.
	}
	d.book.noteRide(ride, f, id)
	return d.judge(kindCreateRide, r, http.StatusCreated, func() error { return err })
}

// newRideID reads the id of a ride from the answer to its creation.
func newRideID(r api.Reply) (int64, error) {
	place := r.Header.Get("Location")
	id, err := strconv.ParseInt(strings.TrimPrefix(place, "/api/v1/rides/"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the new ride's Location is %q", place)
	}
	return id, nil
}

// join joins a ride. While there is no ride to join, it creates one.
func (d *driver) join(ctx context.Context) loadgen.Outcome {
	ride, user := d.book.newJoin()
	if ride == nil {
		return d.createRide(ctx)
	}
	r := d.client.rides.Call(ctx, http.MethodPost, ridePath(ride), map[string]string{"username": user}, d.client.rides.Key()...)
	d.book.noteJoin(ride, user, r.Fate(http.StatusOK))
	return d.judge(kindJoin, r, http.StatusOK, nil)
}

func ridePath(r *ride) string { return fmt.Sprintf("/api/v1/rides/%d", r.id) }

// listing lists the rides of a route, and expects a ride in it that was acknowledged before.
func (d *driver) listing(ctx context.Context) loadgen.Outcome {
	ride := d.book.ride()
	if ride == nil {
		return d.createRide(ctx)
	}
	query := url.Values{"source": {strconv.Itoa(ride.source)}, "destination": {strconv.Itoa(ride.destination)}}
	r := d.client.rides.Call(ctx, http.MethodGet, "/api/v1/rides?"+query.Encode(), nil)
	return d.judge(kindListing, r, http.StatusOK, func() error { return checkListing(r, ride) })
}

func checkListing(r api.Reply, want *ride) error {
	rides, err := api.Decode[[]struct {
		ID        int64  `json:"rideId"`
		Username  string `json:"username"`
		Timestamp string `json:"timestamp"`
	}](r)
	if err != nil {
		return err
	}
	found := 0
	for _, got := range rides {
		if got.ID == want.id && got.Username == want.creator && got.Timestamp == want.timestamp {
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("ride %d of %s at %s is %d times in the listing of its route, want once", want.id, want.creator, want.timestamp, found)
	}
	return nil
}

// ride reads an acknowledged ride and expects all users whose joins were acknowledged before.
func (d *driver) ride(ctx context.Context) loadgen.Outcome {
	ride := d.book.ride()
	if ride == nil {
		return d.createRide(ctx)
	}
	before := d.book.joins(ride)
	r := d.client.rides.Call(ctx, http.MethodGet, ridePath(ride), nil)
	return d.judge(kindRide, r, http.StatusOK, func() error { return checkRide(r, ride, before, d.book.joins(ride)) })
}

// checkRide compares an answer with the joins known before the request and after it.
func checkRide(r api.Reply, want *ride, before, after map[string]ledger.Fate) error {
	got, err := api.Decode[struct {
		ID          int64    `json:"rideId"`
		Creator     string   `json:"created_by"`
		Users       []string `json:"users"`
		Timestamp   string   `json:"timestamp"`
		Source      int      `json:"source"`
		Destination int      `json:"destination"`
	}](r)
	if err != nil {
		return err
	}
	if got.ID != want.id || got.Creator != want.creator || got.Timestamp != want.timestamp || (route{got.Source, got.Destination}) != want.route {
		return fmt.Errorf("got %.200s, want ride %d of %s at %s, %d to %d", r.Body, want.id, want.creator, want.timestamp, want.source, want.destination)
	}
	users := map[string]int{}
	for _, user := range got.Users {
		users[user]++
		if _, tried := after[user]; !tried || users[user] > 1 {
			return fmt.Errorf("ride %d has user %s, who did not join it, or not twice", want.id, user)
		}
	}
	for user, f := range before {
		if f == ledger.Applied && users[user] == 0 {
			return fmt.Errorf("ride %d is without user %s, whose joining was acknowledged", want.id, user)
		}
	}
	return nil
}

// read reads one user from the database.
func (d *driver) read(ctx context.Context) loadgen.Outcome {
	name := d.book.user()
	r := d.client.read(ctx, "users", []string{"username"}, map[string]any{"username": name})
	return d.judge(kindRead, r, http.StatusOK, func() error {
		if want := fmt.Sprintf(`[{"username":%q}]`, name); strings.TrimSpace(string(r.Body)) != want {
			return fmt.Errorf("got %.200s, want %s", r.Body, want)
		}
		return nil
	})
}

// write inserts a row into the table of raw writes.
func (d *driver) write(ctx context.Context) loadgen.Outcome {
	n := d.book.newWrite()
	r := d.client.orchestrator.Call(ctx, http.MethodPost, "/api/v1/db/write", map[string]any{
		"query": "insert", "table": table, "values": map[string]any{"run": d.book.run, "n": n},
	}, d.client.orchestrator.Key()...)
	d.book.writes.Note(n, r.Fate(http.StatusOK))
	return d.judge(kindWrite, r, http.StatusOK, nil)
}

// errRefused is returned when the system cannot be prepared.
var errRefused = errors.New("the system did not take what the load needs")

// prepare creates the table of raw writes, the users of the pool and a first ride.
func (d *driver) prepare(ctx context.Context, users int) error {
	statement := []string{"CREATE TABLE IF NOT EXISTS " + table + "(id INTEGER PRIMARY KEY, run TEXT NOT NULL, n INTEGER NOT NULL)"}
	if _, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return d.client.orchestrator.Call(ctx, http.MethodPost, "/db/execute", statement)
	}, http.StatusOK); err != nil {
		return fmt.Errorf("create table %s: %w: %w", table, errRefused, err)
	}
	for range users {
		name := d.book.newUser()
		if err := d.prepareUser(ctx, name); err != nil {
			return fmt.Errorf("create user: %w: %w", errRefused, err)
		}
		d.book.enroll(name)
	}
	if o := d.createRide(ctx); o.Failure != "" {
		return fmt.Errorf("create a ride: %w: %s", errRefused, o.Failure)
	}
	return nil
}

// prepareUser creates a user; a user created by an attempt whose answer was lost counts too.
func (d *driver) prepareUser(ctx context.Context, name string) error {
	_, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		r := d.putUser(ctx, name)
		if r.Status == http.StatusCreated {
			return r
		}
		if there := d.client.users.Call(ctx, http.MethodGet, "/api/v1/users/"+name, nil); there.Status == http.StatusOK {
			return there
		}
		return r
	}, http.StatusCreated, http.StatusOK)
	return err
}
