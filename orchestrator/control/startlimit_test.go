package control

import (
	"slices"
	"testing"
	"time"
)

// After a failed start there is a pause, which doubles up to its bound, and then one attempt. A successful start ends
// the pauses.
func TestStartLimit_FailedStarts_ArePausedLongerAndLonger(t *testing.T) {
	now := time.Now()
	s := newStartLimit(100)
	if got := s.allowed(now); got != 100 {
		t.Fatalf("at first: got %d starts allowed, want 100", got)
	}
	for n, pause := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		s.begun(now)
		if first := s.failure(now); first != (n == 0) {
			t.Errorf("failure %d: got first %v", n+1, first)
		}
		if got := s.allowed(now.Add(pause - 1)); got != 0 {
			t.Errorf("failure %d: got %d starts allowed before %v are over, want none", n+1, got, pause)
		}
		now = now.Add(pause)
		if got := s.allowed(now); got != 1 {
			t.Errorf("failure %d: got %d starts allowed after %v, want one", n+1, got, pause)
		}
	}
	if failed := s.success(); failed != 7 {
		t.Errorf("got %d failures before the success, want 7", failed)
	}
	if got := s.allowed(now.Add(time.Minute)); got != 100 {
		t.Errorf("after a success: got %d starts allowed, want 100", got)
	}
}

// perMinute workers may be started together. Then places become free one by one, never more than perMinute.
func TestStartLimit_Used_PlacesComeBackOneByOne(t *testing.T) {
	now := time.Now()
	s := newStartLimit(4)
	for range 4 {
		s.begun(now)
	}
	for after, want := range map[time.Duration]int{
		0: 0, 15*time.Second - 1: 0, 15 * time.Second: 1, 30*time.Second - 1: 1, 30 * time.Second: 2, time.Minute: 4, time.Hour: 4,
	} {
		if got := s.allowed(now.Add(after)); got != want {
			t.Errorf("after %v: got %d starts allowed, want %d", after, got, want)
		}
	}
	s.begun(now.Add(20 * time.Second))
	if got := s.allowed(now.Add(30 * time.Second)); got != 1 {
		t.Errorf("30 s after four, 10 s after the fifth: got %d starts allowed, want 1", got)
	}
}

// Each start that has to wait is counted once, however many passes see it. A streak is over when no start
// has waited for a while.
func TestStartLimit_HeldBack_EachCountsOnce(t *testing.T) {
	began := time.Now()
	s := newStartLimit(4)
	for _, step := range []struct {
		after                              time.Duration
		wanted                             int
		permitted, held, streak, heldTotal int
	}{
		{0, 3, 3, 0, 0, 0},
		{0, 3, 1, 2, 2, 2},
		{time.Second, 2, 0, 2, 2, 2},
		{15 * time.Second, 3, 1, 2, 3, 3}, // one start is done, another one now waits
		{30 * time.Second, 2, 1, 1, 3, 3},
		{40 * time.Second, 1, 0, 1, 3, 3},
		{45 * time.Second, 1, 1, 0, 3, 3},
		{46 * time.Second, 1, 0, 1, 4, 4},
		{55 * time.Second, 1, 0, 1, 4, 4},
		{60 * time.Second, 1, 1, 0, 4, 4},
		{70 * time.Second, 0, 0, 0, 0, 4},
	} {
		now := began.Add(step.after)
		actions := s.permit(slices.Repeat([]Action{{Kind: ActionStart}, {Kind: ActionAssignSlave}}, step.wanted), now)
		starts := len(actions) - step.wanted
		for range starts {
			s.begun(now)
		}
		if starts != step.permitted || s.held != step.held || s.streak != step.streak || s.total != step.heldTotal {
			t.Errorf("%d wanted after %v: got %d permitted, %d held back, %d in a streak, %d in all; want %+v",
				step.wanted, step.after, starts, s.held, s.streak, s.total, step)
		}
	}
}

// A start that waits because an earlier start failed does not count as held back.
func TestStartLimit_AfterAFailure_NotHeldBack(t *testing.T) {
	now := time.Now()
	s := newStartLimit(4)
	s.begun(now)
	s.failure(now)
	if got := s.permit([]Action{{Kind: ActionStart}}, now); len(got) != 0 || s.held != 0 {
		t.Errorf("got %v permitted, %d held back, want none of both", got, s.held)
	}
}
