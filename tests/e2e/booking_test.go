package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Users and rides keep their rules while workers die. Clients repeat their calls with the same key until the answer is
// final: each user and each ride is created once, and no seat is given twice.
func TestFaults_BookingWhileWorkersCrash_EachUserRideAndSeatOnce(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}, env: []string{"CALL_TIMEOUT=3s"}})
	const guests, seats = 80, 25
	sys.PutUser(t, "host")
	shared := sys.NewRide(t, "host", seats)
	var joined atomic.Int64
	stopCrashing := sys.keepCrashing(t)
	rides := make([]string, guests)
	err := together(guests, func(i int) error {
		name := fmt.Sprintf("guest-%d", i)
		if _, err := sys.book(name+"/user", "PUT", sys.usersURL(), userBody(name), http.StatusCreated); err != nil {
			return err
		}
		a, err := sys.book(name+"/ride", "POST", sys.ridesURL(), rideBody(name, nil), http.StatusCreated)
		if err != nil {
			return err
		}
		rides[i] = a.Header.Get("Location")
		a, err = sys.book(name+"/join", "POST", sys.rideURL(shared), toJSON(map[string]string{"username": name}), http.StatusOK, http.StatusConflict)
		if err == nil && a.Status == http.StatusOK {
			joined.Add(1)
		}
		return err
	})
	crashes := stopCrashing()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d workers crashed meanwhile", crashes)
	sys.AwaitService(t)
	view := decode[rideView](t, sys.Get(t, sys.rideURL(shared)).expect(t, http.StatusOK, anyBody))
	slices.Sort(view.Users)
	if len(view.Users) != seats || joined.Load() != seats || len(slices.Compact(view.Users)) != seats {
		t.Errorf("seats: %d answered 200, %d in the ride, want %d", joined.Load(), len(view.Users), seats)
	}
	slices.Sort(rides)
	if n := len(slices.Compact(rides)); n != guests || rides[0] == "" {
		t.Errorf("created rides: got %d different Locations, want %d", n, guests)
	}
	sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, fmt.Sprintf("[%d]", guests+1))
	if users := decode[[]string](t, sys.Get(t, sys.usersURL())); len(users) != guests+1 {
		t.Errorf("users: got %d, want %d", len(users), guests+1)
	}
}

// book repeats a call with a key until its answer is one of want. The reason tells the 409 of a full ride from the 409 of
// a key that still runs.
func (s *system) book(key, method, url, body string, want ...int) (answer, error) {
	a, err := untilFinal(func(ctx context.Context) (answer, error) {
		a, err := s.Try(ctx, method, url, body, keyHeader, key)
		if a.Status == http.StatusConflict && strings.Contains(a.Header.Get("X-Error"), "no seat is left") {
			a.Status = http.StatusGone // final, as untilFinal sees it
		}
		return a, err
	})
	if a.Status == http.StatusGone {
		a.Status = http.StatusConflict
	}
	if err == nil && !slices.Contains(want, a.Status) {
		err = fmt.Errorf("%s %s: got %d %.200s, want one of %v", method, url, a.Status, a.Body, want)
	}
	return a, err
}

// mostCrashes is below STARTS_PER_MINUTE: otherwise starts would be held back for up to a minute.
const mostCrashes = 90

// keepCrashing kills a random worker, and then another each time the system is whole again, mostCrashes at most, until
// stop is called, which returns how many died.
func (s *system) keepCrashing(t *testing.T) (stop func() int) {
	t.Helper()
	random := newRandom(t)
	ctx, cancel := context.WithCancel(t.Context())
	role := func() string { return []string{"master", "slave"}[random.IntN(2)] }
	s.Crash(t, role())
	crashes := make(chan int, 1)
	go func() {
		n := 1
		for n < mostCrashes && ctx.Err() == nil {
			if a, err := s.Try(ctx, "GET", s.db("/readyz"), ""); err != nil || a.Status != http.StatusOK {
				continue
			}
			a, err := s.Try(context.WithoutCancel(ctx), "POST", s.db("/api/v1/crash/"+role()), "") // a call that is cut off may still kill a worker
			if err == nil && a.Status == http.StatusOK {
				n++
			}
		}
		crashes <- n
	}()
	return func() int {
		cancel()
		return <-crashes
	}
}
