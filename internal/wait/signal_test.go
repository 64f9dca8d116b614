package wait_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/wait"
)

// However often a token is given, one receive takes it, and giving it never blocks.
func TestToken_GivenTwice_IsTakenOnce(t *testing.T) {
	t.Parallel()
	token := wait.NewToken()
	token.Give()
	token.Give()
	<-token
	select {
	case <-token:
		t.Error("the token was there a second time, want it taken")
	default:
	}
}

// Notify wakes all goroutines that wait, and none that come later.
func TestSignal_WakesAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s wait.Signal
		var woken sync.WaitGroup
		for range 5 {
			next := s.Next()
			woken.Go(func() { <-next })
		}
		s.Notify()
		woken.Wait()
		select {
		case <-s.Next():
			t.Error("a channel of after the notification is closed, want it open")
		default:
		}
		s.Notify()
	})
}

// A streak has a first failure, a number, a length, and an end after which the next failure is a first one again. A
// failure is reported again after each minute.
func TestStreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s wait.Streak
		if s.End() != 0 || s.Took() != 0 {
			t.Error("a streak without failures has some")
		}
		for range 2 {
			for failed, report := range []bool{true, false, true, false, true} {
				if got := s.Fail(); got != report {
					t.Errorf("failure %d after %v: reported %v, want %v", failed+1, s.Took(), got, report)
				}
				time.Sleep(wait.RepeatAfter / 2) // of the bubble
			}
			if count, took := s.Count(), s.Took(); count != 5 || took != 5*wait.RepeatAfter/2 {
				t.Errorf("got %d failures in %v, want 5 in %v", count, took, 5*wait.RepeatAfter/2)
			}
			if n := s.End(); n != 5 {
				t.Errorf("the streak ended with %d failures, want 5", n)
			}
		}
	})
}
