package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/internal/instances"
	"rideshare/internal/testkit/testenv"
)

// server remembers its requests, and answers the status, or resets the connection if that is 0.
type server struct {
	*httptest.Server

	mu   sync.Mutex // guards seen
	seen []string   // key and position of each request, and the body
}

func newServer(t *testing.T, status int, seq string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s %s", r.Header.Get("Idempotency-Key"), r.Header.Get("X-Min-Seq"), body))
		s.mu.Unlock()
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Seq", seq)
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

func newClient(t *testing.T, addresses ...string) *api.Client {
	t.Helper()
	all := &api.Client{HTTP: &http.Client{Transport: &http.Transport{}}, Timeout: time.Minute}
	c, err := all.At(strings.Join(addresses, ","), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// What a write comes to when the first address fails in some way, and what the second one gets.
func TestClient_At_Writes(t *testing.T) {
	const key = "Idempotency-Key"
	t.Cleanup(instances.SetProbeTime(10 * time.Second))
	for _, tt := range []struct {
		name   string
		first  string // refused, paused or reset
		second int
		header []string
		want   ledger.Fate
		got    []string
	}{
		{"Refused", "refused", 200, nil, ledger.Applied, []string{`  "x"`}},
		{"RefusedByAll", "refused", 503, nil, ledger.Refused, []string{`  "x"`}},
		{"LostWithKey", "reset", 200, []string{key, "k"}, ledger.Applied, []string{`k  "x"`}},
		{"PausedWithKey", "paused", 200, []string{key, "k"}, ledger.Applied, []string{`k  "x"`}},
		{"LostWithoutKey", "reset", 200, nil, ledger.Unknown, nil},
		// The first may have done it, whatever the second one says.
		{"LostThenRefused", "reset", 503, []string{key, "k"}, ledger.Unknown, []string{`k  "x"`}},
		{"LostThenWrong", "reset", 400, []string{key, "k"}, ledger.Unknown, []string{`k  "x"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			second, first := newServer(t, tt.second, ""), "http://"+testenv.FreeAddress(t)
			switch tt.first {
			case "reset":
				first = newServer(t, 0, "").URL
			case "paused":
				network := testenv.NewNetwork(t, second.URL)
				network.Cut()
				first = "http://" + network.Addr()
			}
			c := newClient(t, first, second.URL)
			r := c.Call(t.Context(), http.MethodPost, "/x", "x", tt.header...)
			if got := r.Fate(http.StatusOK); got != tt.want {
				t.Errorf("got fate %d of %v, want %d", got, r, tt.want)
			}
			if got := second.take(); !slices.Equal(got, tt.got) {
				t.Errorf("the second got %q, want %q", got, tt.got)
			}
		})
	}
}

// A write that no address took is certainly not done.
func TestClient_At_NobodyThere(t *testing.T) {
	t.Cleanup(instances.SetProbeTime(30 * time.Second))
	c := newClient(t, "http://"+testenv.FreeAddress(t), "http://"+testenv.FreeAddress(t))
	if r := c.Call(t.Context(), http.MethodPost, "/x", "x", c.Key()...); r.Fate(http.StatusOK) != ledger.Refused || r.Failure(http.StatusOK) != "connection" {
		t.Errorf("got %v, want refused connections", r)
	}
}

// The clients of one system share the largest position that any of them has seen.
func TestClient_At_Position(t *testing.T) {
	t.Cleanup(instances.SetProbeTime(30 * time.Second))
	nobody, users, database := "http://"+testenv.FreeAddress(t), newServer(t, 200, "7"), newServer(t, 200, "5")
	all := &api.Client{HTTP: &http.Client{Transport: &http.Transport{}}}
	for i, want := range []string{"  ", " 7 ", " 7 "} {
		of := []*server{users, database, users}[i]
		c, err := all.At(nobody+","+of.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := c.Call(t.Context(), http.MethodGet, "/x", nil); r.Failure(http.StatusOK) != "" {
			t.Error(r)
		}
		if got := of.take(); len(got) != 1 || got[0] != want {
			t.Errorf("request %d: got %q, want %q", i, got, want)
		}
		c.HTTP.CloseIdleConnections()
	}
}

// With one address nothing is added to a request.
func TestClient_At_One(t *testing.T) {
	s := newServer(t, 200, "7")
	c := newClient(t, s.URL+"/")
	for range 2 {
		if r := c.Call(t.Context(), http.MethodPost, "/x", "x", c.Key()...); r.Failure(http.StatusOK) != "" {
			t.Error(r)
		}
	}
	if got := s.take(); !slices.Equal(got, []string{`  "x"`, `  "x"`}) {
		t.Errorf("got %q", got)
	}
	for _, wrong := range []string{"", "x", "http://x,", "http://x,http://x"} {
		if _, err := (&api.Client{HTTP: &http.Client{Transport: &http.Transport{}}}).At(wrong, nil); err == nil {
			t.Errorf("%q: got nil, want an error", wrong)
		}
	}
}
