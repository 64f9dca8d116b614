package control

import (
	"testing"
	"time"
)

// After a failed start there is a pause, which doubles up to its bound, and one try at its end; a start that does not
// fail ends it.
func TestStartLimit_FailedStarts_ArePausedLongerAndLonger(t *testing.T) {
	now := time.Now()
	s := startLimit{perMinute: 100}
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

// No more than so many in any minute.
func TestStartLimit_PerMinute(t *testing.T) {
	now := time.Now()
	s := startLimit{perMinute: 2}
	s.begun(now)
	s.begun(now.Add(30 * time.Second))
	for after, want := range map[time.Duration]int{30 * time.Second: 0, 59 * time.Second: 0} {
		if got := s.allowed(now.Add(after)); got != want {
			t.Errorf("after %v: got %d starts allowed, want %d", after, got, want)
		}
	}
	if got := s.allowed(now.Add(time.Minute)); got != 1 {
		t.Errorf("after a minute: got %d starts allowed, want 1", got)
	}
}
