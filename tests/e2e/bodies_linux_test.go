package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// slowCopies is how often each slow request is sent at the same time.
	slowCopies = 8
	// stalledBodies is more requests than the memory for short requests has room for.
	stalledBodies = 300
)

// Bodies that are one byte over the limit, have 100 MiB or never end, and hundreds of requests that are never completed: each is
// refused as docs/API.md says, none reaches the queues or the database, the memory stays within its bound, and other clients'
// requests are answered all the time.
func TestBodies_HugeEndlessAndSlow_RefusedWhileOthersAreAnswered(t *testing.T) {
	sys := start(t, setup{owned: true, env: []string{"SCALE_PERIOD=1h", "CALL_TIMEOUT=15s"}, flags: []string{"--slaves", "1"}})
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	before := peak(t, sys.PID)
	began := time.Now()
	slow := sys.sendSlow(t)

	seq := sys.Post(t, sys.db("/db/execute"), sqlBody("INSERT INTO "+table+" DEFAULT VALUES")).seq(t)
	taken, own := sys.requestsTaken(t), int64(0)
	checkFlood(t, sys.orchestratorPlaces(), func() {
		own, seq = own+2, seq+1
		if got := sys.inTime(t, "POST", sys.db("/db/execute"), sqlBody("INSERT INTO "+table+" DEFAULT VALUES"), http.StatusOK).seq(t); got != seq {
			t.Errorf("position of the next write: got %d, want %d: something else was committed", got, seq)
			seq = got
		}
		sys.inTime(t, "POST", sys.db("/db/query"), sqlBody("SELECT count(*) FROM "+table), http.StatusOK)
	})
	if got := sys.requestsTaken(t) - taken; got != own {
		t.Errorf("requests that the orchestrator has handed over: got %d, want the %d of the others", got, own)
	}

	var created []string
	checkFlood(t, sys.servicePlaces(), func() {
		name := newName("other")
		sys.inTime(t, "PUT", sys.usersURL(), userBody(name), http.StatusCreated)
		sys.inTime(t, "GET", sys.userURL(name), "", http.StatusOK)
		created = append(created, name)
	})
	t.Logf("%v: %d MiB of memory before, %d at most; %d writes, %d users created meanwhile", time.Since(began), before, peak(t, sys.PID), own/2, len(created))
	if got := peak(t, sys.PID); got > before+floodMemory {
		t.Errorf("the process took %d MiB, want at most %d more than the %d before", got, floodMemory, before)
	}

	t.Parallel() // so that other tests do not wait for the slow requests
	slow.check(t)
	sys.stall(t)
	for range 3 {
		sys.inTime(t, "POST", sys.db("/db/execute"), sqlBody("INSERT INTO "+table+" DEFAULT VALUES"), http.StatusOK)
		sys.inTime(t, "POST", sys.db("/db/query"), sqlBody("SELECT count(*) FROM "+table), http.StatusOK)
	}
	slices.Sort(created)
	if got := decode[[]string](t, sys.Get(t, sys.usersURL())); !slices.Equal(slices.Sorted(slices.Values(got)), created) {
		t.Errorf("users: got %v, want %v", got, created)
	}
	sys.Get(t, sys.ridesURL()+"/count").expect(t, http.StatusOK, "[0]")
}

// inTime is Call for a request of another client, which must be answered with the wanted status and in time, whatever else
// happens.
func (s *system) inTime(t *testing.T, method, url, body string, status int) answer {
	t.Helper()
	began := time.Now()
	a := s.Call(t, method, url, body).expect(t, status, anyBody)
	if took := time.Since(began); took > answerLimit {
		t.Errorf("%s %s: answered after %v, want within %v", method, url, took, answerLimit)
	}
	return a
}

// slowCrowd holds the slow requests in flight.
type slowCrowd struct {
	requests []*slowRequest
	all      sync.WaitGroup
}

// sendSlow sends the slow requests of all places. It returns once the services have received all complete heads.
func (s *system) sendSlow(t *testing.T) *slowCrowd {
	t.Helper()
	c := &slowCrowd{}
	t.Cleanup(c.all.Wait)
	users, rides := 0, 0
	for _, p := range append(s.servicePlaces(), s.orchestratorPlaces()...) {
		for range slowCopies {
			for _, r := range p.slow() {
				c.requests = append(c.requests, r)
				switch {
				case r.status == 0:
				case p.path == "/api/v1/users":
					users++
				case p.path == "/api/v1/rides":
					rides++
				}
				c.all.Go(func() { r.answer, r.err = r.send() })
			}
		}
	}
	eventually(t, againLimit, func() error {
		if u, r := s.Count(t, s.Users), s.Count(t, s.Rides); u != users || r != rides {
			return fmt.Errorf("requests that arrived: got %d at users and %d at rides, want %d and %d", u, r, users, rides)
		}
		return nil
	})
	return c
}

// stall sends the heads of so many requests that there is no room for more, and keeps these requests open until the test ends.
func (s *system) stall(t *testing.T) {
	t.Helper()
	p := s.servicePlaces()[2]
	before := s.Count(t, s.Users)
	for range stalledBodies {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err = io.WriteString(conn, p.head("Transfer-Encoding: chunked\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, againLimit, func() error {
		if got := s.Count(t, s.Users) - before; got != stalledBodies {
			return fmt.Errorf("requests that arrived: got %d, want %d", got, stalledBodies)
		}
		return nil
	})
}

// check waits until all slow requests have ended. Each must end as docs/API.md says.
func (c *slowCrowd) check(t *testing.T) {
	t.Helper()
	c.all.Wait()
	for _, r := range c.requests {
		if r.err != nil || r.answer.Status != r.status {
			t.Errorf("%s: got %d %.200q, %v, want %d", r.name, r.answer.Status, r.answer.Body, r.err, r.status)
		}
		if r.answer.took < r.after-time.Second || r.answer.took > r.after+answerLimit {
			t.Errorf("%s: over after %v, want %v", r.name, r.answer.took, r.after)
		}
	}
}
