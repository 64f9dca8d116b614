package fault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// With a short period and reads per slave that the load exceeds many times, the slaves
// go from one to three and back again under writes, twice, while processes die at
// the very moments of the steps: the number ends as it should, and nothing is lost.
func TestSystem_KilledDuringScaleSteps_EndsInTheRightNumber(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, "SCALE_PERIOD=5s", "SCALE_MAX=3")
	l := startLoad(t, sys)
	for range 2 {
		sys.awaitDesired(t, 3)
		sys.killLowest(t, "slave") // while others are being started
		sys.awaitWhole(t, 3)
		l.quiet.Store(true)
		sys.awaitDesired(t, 1)
		sys.killLowest(t, "slave") // the one that was to stay, while the others are drained
		sys.awaitWhole(t, 1)
		l.quiet.Store(false)
	}
	sys.awaitDesired(t, 3)
	sys.killLowest(t, "master")
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitDesired(t, 1)
	l.await(t, 1)
}

// Scaling in by itself fails no request: a slave that is drained finishes and leaves. One that is
// only scaled, under writes and reads, sees neither 503 nor 504.
func TestSystem_ScaledOutAndIn_NoRequestFails(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, "SCALE_PERIOD=5s", "SCALE_MAX=3", patient)
	l := startLoad(t, sys)
	for range 2 {
		sys.awaitWhole(t, 3)
		l.quiet.Store(true)
		sys.awaitWhole(t, 1)
		l.quiet.Store(false)
	}
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitWhole(t, 1)
	if w, r := l.writesRefused.Load(), l.readsFailed.Load(); w+r > 0 {
		t.Errorf("refused: got %d writes and %d reads, want none", w, r)
	}
	l.await(t, 1)
	sys.drained(t, 4)
}

// drained checks that at least so many slaves have died, and that each was let finish.
func (s *system) drained(t *testing.T, least int) {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	died := 0
	for line := range bytes.Lines(text) {
		var e struct {
			Msg, Change, Role string
			Code              int
		}
		if err = json.Unmarshal(line, &e); err != nil || e.Msg != "worker changed" || e.Change != "died" || e.Role != "slave" {
			continue // some lines are not ours
		}
		if died++; e.Code != 0 {
			t.Errorf("a slave that was to finish ended with exit code %d, want 0", e.Code)
		}
	}
	if died < least {
		t.Errorf("slaves that ended: got %d, want %d at least", died, least)
	}
}

// A coordinator that stands still at the tick delays the decision and does not lose it.
func TestSystem_CoordinatorStandsStillAtTheTick_DecisionIsCarriedOut(t *testing.T) {
	t.Parallel()
	const period = 15 * time.Second
	on := ownCoordinator(t)
	sys := startSystem(t, on, 1, "SCALE_PERIOD="+period.String(), "SCALE_MAX=2", "SCALE_READS_PER_SLAVE=50", slowSession)
	l := startLoad(t, sys)
	l.quiet.Store(true)
	for ticks := range 2 { // the load's start counts in the first window
		testenv.Eventually(t, healLimit, func() error {
			if got := len(sys.decisions(t)); got != ticks+1 {
				return fmt.Errorf("got %d decisions, want %d", got, ticks+1)
			}
			return nil
		})
	}
	sys.awaitWhole(t, 1)
	l.quiet.Store(false)
	tick := sys.decisions(t)[1].At.Add(period)
	_ = pause(t.Context(), time.Until(tick)-4*time.Second)
	l.quiet.Store(true)
	stood := time.Now()
	on.zoo.Pause(t)
	_ = pause(t.Context(), time.Until(tick)+4*time.Second) // less than a session: nothing else happens
	if n, err := sys.desired(); err != nil || n != 1 {
		t.Errorf("the fault has not struck: %d slaves are wanted while the coordinator stands still (%v), want 1", n, err)
	}
	on.zoo.Resume(t)
	went := time.Now()
	testenv.Eventually(t, healLimit, func() error {
		all := sys.decisions(t)
		if len(all) < 3 || all[2].Wanted != 2 || !all[2].Done {
			return fmt.Errorf("got %+v, want the third for two slaves, and done", all)
		}
		return nil
	})
	if at := sys.decisions(t)[2].At; at.Before(stood) || at.After(went) {
		t.Errorf("the fault has not struck: the tick was at %v, the coordinator stood still from %v to %v", at, stood, went)
	}
	l.await(t, 1)
}

// decision is one of GET scaling/decisions.
type decision struct {
	At            time.Time
	Count, Wanted int
	Done          bool
	Why           string
}

func (s *system) decisions(t *testing.T) []decision {
	t.Helper()
	all, err := get[[]decision](s, "/api/v1/scaling/decisions")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *system) awaitDesired(t *testing.T, slaves int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		n, err := s.desired()
		if err == nil && n != slaves {
			err = fmt.Errorf("wanted slaves: got %d, want %d", n, slaves)
		}
		return err
	})
}

// desired is the wanted number of slaves.
func (s *system) desired() (int, error) {
	c, err := get[struct {
		Desired int `json:"desired_slaves"`
	}](s, "/api/v1/cluster")
	return c.Desired, err
}

// killLowest kills the worker with that role that has the lowest pid. One that has gone by itself meanwhile is fine too.
func (s *system) killLowest(t *testing.T, role string) {
	t.Helper()
	pids := s.cluster(t).pids(role)
	if len(pids) == 0 {
		t.Fatalf("no %s to kill", role)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}
