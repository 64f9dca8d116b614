package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// decision is one of GET scaling/decisions.
type decision struct {
	Count  int    `json:"count"`
	Wanted int    `json:"wanted"`
	Done   bool   `json:"done"`
	Why    string `json:"why"`
	Sample struct {
		Reads   int      `json:"reads"`
		Slaves  int      `json:"slaves"`
		Missing []string `json:"missing"`
	} `json:"sample"`
	Would []struct {
		Policy string `json:"policy"`
		Wanted int    `json:"wanted"`
	} `json:"would"`
}

func (s *system) decisions(t *testing.T) []decision {
	t.Helper()
	return decode[[]decision](t, s.Get(t, s.db("/api/v1/scaling/decisions")))
}

const countUsers = `{"table":"users","columns":["count(*)"]}`

// readOnce sends one read, which must be answered with 200.
func (s *system) readOnce(ctx context.Context) error {
	a, err := s.Try(ctx, http.MethodPost, s.db("/api/v1/db/read"), countUsers)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("read: got %d %.200s, want 200", a.Status, a.Body)
	}
	return err
}

// trickle sends a read after each pause until stop is called. stop returns the number of reads and the first error.
func (s *system) trickle(t *testing.T, pause time.Duration) (stop func() (int, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	sent, ended := 0, make(chan error, 1)
	go func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			sent++
			if err := s.readOnce(context.Background()); err != nil { // stop must not cut this read off: the system has counted it
				ended <- err
				return
			}
		}
	}()
	return func() (int, error) {
		cancel()
		err := <-ended
		return sent, err
	}
}

// After ten thousand reads or more there are as many slaves as allowed; with few reads afterwards there is one again.
// No read fails, each is counted in exactly one window, and every decision has its sample, its reason, and what the
// other policy would have decided. The decisions survive a restart.
func TestScaling_ManyReadsThenFew_SlavesFollowAndNoReadFails(t *testing.T) {
	sys := start(t, setup{env: []string{"SCALE_PERIOD=3s", "SCALE_MAX=4"}})
	stop := sys.trickle(t, 250*time.Millisecond) // too few for a second slave
	var sent atomic.Int64
	var grown atomic.Bool
	many := make(chan error, 1)
	go func() {
		many <- together(20, func(int) error {
			for n := 0; n < 500 || !grown.Load(); n++ {
				sent.Add(1)
				if err := sys.readOnce(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	sys.awaitSlaves(t, 4)
	grown.Store(true)
	if err := <-many; err != nil {
		t.Error(err)
	}
	sys.awaitSlaves(t, 1)
	few, err := stop()
	if err != nil {
		t.Error(err)
	}
	want := int(sent.Load()) + few
	var all []decision
	eventually(t, 30*time.Second, func() error { // until the last reads have had their tick
		all = sys.decisions(t)
		got := 0
		for _, d := range all {
			got += d.Count
		}
		if got != want || !all[len(all)-1].Done {
			return fmt.Errorf("reads in all decisions: got %d, want %d", got, want)
		}
		return nil
	})
	for _, d := range all {
		if right := max(1, min((d.Count+19)/20, 4)); d.Wanted != right || !d.Done && !strings.Contains(d.Why, "overtaken") || d.Why == "" || d.Sample.Reads != d.Count {
			t.Errorf("got %s, want %d slaves, done, and why", toJSON(d), right)
		}
		if len(d.Would) != 1 || d.Would[0].Policy != "latency" || d.Sample.Slaves < 1 && len(d.Sample.Missing) == 0 { // A worker that is starting is missing.
			t.Errorf("got %s, want a sample and what policy latency would do", toJSON(d))
		}
	}
	if !slices.ContainsFunc(all, func(d decision) bool { return len(d.Sample.Missing) == 0 }) {
		t.Error("no decision has a whole sample")
	}
	sys.Restart(t)
	if again := sys.decisions(t); len(again) < len(all) || toJSON(again[:len(all)]) != toJSON(all) {
		t.Errorf("after a restart: got %s, want %s", toJSON(again), toJSON(all))
	}
}

// If slaves crash during a scale step, out or in, the number of slaves at its end is still right.
func TestScaling_CrashDuringTheStep_EndsInTheRightNumber(t *testing.T) {
	sys := start(t, setup{env: []string{"SCALE_PERIOD=3s", "SCALE_MAX=3"}})
	for round := range 2 {
		stop := sys.trickle(t, 10*time.Millisecond)
		sys.awaitDesired(t, 3)
		if _, err := stop(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		sys.Crash(t, "slave")
		sys.awaitMost(t, 3)
		sys.awaitDesired(t, 1)
		eventually(t, againLimit, func() error { // The successor of the first slave may not be there yet.
			return sys.Post(t, sys.db("/api/v1/crash/slave"), "").check(http.StatusOK, anyBody)
		})
		sys.awaitSlaves(t, 1)
		if c := sys.Cluster(t); len(c.pids("master")) != 1 {
			t.Errorf("round %d: got %s, want one master", round, toJSON(c))
		}
	}
}

// awaitDesired waits until exactly that many slaves are wanted, however many serve.
func (s *system) awaitDesired(t *testing.T, slaves int) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		if got := s.Cluster(t).DesiredSlaves; got != slaves {
			return fmt.Errorf("wanted slaves: got %d, want %d", got, slaves)
		}
		return nil
	})
}

// awaitMost waits until that many slaves have served at the same time: the next window may remove them again at any
// moment.
func (s *system) awaitMost(t *testing.T, slaves int) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		c := s.Cluster(t)
		if c.DesiredSlaves < slaves || len(c.pids("slave")) >= slaves && !slices.ContainsFunc(c.Members, func(m member) bool { return !m.Ready }) {
			return nil
		}
		return fmt.Errorf("got %s, want %d slaves", toJSON(c), slaves)
	})
}
