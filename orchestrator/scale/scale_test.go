package scale_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jonboulle/clockwork"

	"rideshare/internal/testenv"
	"rideshare/orchestrator/scale"
)

var standard = scale.Policy{PerSlave: 20, Min: 1, Max: 8}

// The boundaries: a full slave more only for the read after an exact multiple.
func TestPolicy_Desired_Boundaries(t *testing.T) {
	for reads, want := range map[int]int{0: 1, 1: 1, 20: 1, 21: 2, 40: 2, 41: 3, 160: 8, 161: 8, 1000: 8} {
		if got := standard.Desired(reads); got != want {
			t.Errorf("%d reads: got %d slaves, want %d", reads, got, want)
		}
	}
}

// More reads never need fewer slaves, and the bounds hold for any count.
func FuzzPolicy_Desired(f *testing.F) {
	f.Add(0)
	f.Add(1 << 40)
	f.Fuzz(func(t *testing.T, reads int) {
		if reads < 0 || reads > 1<<60 {
			return
		}
		got, more := standard.Desired(reads), standard.Desired(reads+1)
		if got < standard.Min || got > standard.Max || more < got {
			t.Fatalf("%d reads: got %d, one more: %d", reads, got, more)
		}
	})
}

// setterFunc fakes the control loop with one function.
type setterFunc func(n int) error

func (f setterFunc) SetSlaves(_ context.Context, n int) error { return f(n) }

func newScaler(t *testing.T, set setterFunc) (*scale.Scaler, *clockwork.FakeClock) {
	t.Helper()
	clock := clockwork.NewFakeClock()
	s, err := scale.New(scale.Config{
		Log: slog.New(slog.DiscardHandler), Setter: set, Policy: standard, Period: 2 * time.Minute, Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, clock
}

func await(t *testing.T, s *scale.Scaler, n int) []scale.Decision {
	t.Helper()
	testenv.Eventually(t, 10*time.Second, func() error {
		if got := len(s.Decisions()); got < n {
			return fmt.Errorf("got %d decisions, want %d", got, n)
		}
		return nil
	})
	return s.Decisions()
}

// Each tick sees exactly the reads since the tick before; a read that comes
// while a tick is being carried out belongs to the next window.
func TestScaler_ReadsDuringTheTick_CountInTheNextWindow(t *testing.T) {
	var s *scale.Scaler
	s, clock := newScaler(t, func(int) error {
		s.Read()
		return nil
	})
	s.Requested()
	for range 41 {
		s.Read()
	}
	tick(t, clock)
	await(t, s, 1)
	tick(t, clock)
	var got [][2]int
	for _, d := range await(t, s, 2) {
		got = append(got, [2]int{d.Reads, d.Wanted})
	}
	if diff := cmp.Diff([][2]int{{41, 3}, {1, 1}}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// Nothing is decided before the first request, however long the system idles.
func TestScaler_NoRequestYet_NoDecision(t *testing.T) {
	s, clock := newScaler(t, func(int) error { return nil })
	clock.Advance(time.Hour)
	if got := s.Decisions(); len(got) != 0 {
		t.Fatalf("got %v, want none", got)
	}
	s.Requested()
	tick(t, clock)
	await(t, s, 1)
}

// A decision that could not be written says so.
func TestScaler_CoordinatorAway_DecisionNotDone(t *testing.T) {
	s, clock := newScaler(t, func(int) error { return errors.New("away") })
	s.Requested()
	tick(t, clock)
	if d := await(t, s, 1)[0]; d.Done {
		t.Errorf("got %+v, want one that is not done", d)
	}
}

// tick lets one period pass once the scheduler waits for it.
func tick(t *testing.T, clock *clockwork.FakeClock) {
	t.Helper()
	if err := clock.BlockUntilContext(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Minute)
}
