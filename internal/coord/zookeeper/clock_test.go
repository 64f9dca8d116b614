package zookeeper

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// watched is a clock with its mutex, and a count of how often it ran out.
type watched struct {
	mu    sync.Mutex
	clock clock
	over  int
}

func watch(length time.Duration) *watched {
	w := &watched{clock: clock{length: length}}
	w.clock.init(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.clock.over() {
			w.over++
		}
	})
	return w
}

func (w *watched) prove(sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.prove(sent)
}

// wantOver lets time pass, in a bubble, and checks how often the clock has run out by then.
func (w *watched) wantOver(t *testing.T, after time.Duration, want int) {
	t.Helper()
	<-time.After(after)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != want {
		t.Errorf("%v later: over %d times, want %d", after, w.over, want)
	}
}

// A session with a recent proof is not suspended. It is suspended two thirds of its timeout after the last answered
// request was sent, however late the answer came.
func TestClock_DoubtCountsFromSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const length, beat, suspend = 6 * time.Second, time.Second, 4 * time.Second
		w := watch(length)
		for range 20 {
			sent := time.Now()
			w.wantOver(t, beat, 0) // the answer is slow
			w.prove(sent)
		}
		w.prove(time.Now().Add(-2 * length)) // an old answer
		w.wantOver(t, suspend-beat-time.Millisecond, 0)
		w.wantOver(t, time.Millisecond, 1)
	})
}

// A clock that was stopped, or whose session does not exist yet, never runs out.
func TestClock_StoppedIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped, never := watch(6*time.Second), watch(0)
		stopped.prove(time.Now())
		stopped.clock.stop()
		stopped.wantOver(t, 2*time.Hour, 0)
		never.wantOver(t, 0, 0)
	})
}

// A session without an id owns nothing, in particular no node without an owner.
func TestSession_WithoutIDOwnsNothing(t *testing.T) {
	t.Parallel()
	s := &Session{}
	if s.owns(&zk.Stat{}) {
		t.Error("no id, no owner: got owned")
	}
	s.id = 7
	if s.owns(&zk.Stat{EphemeralOwner: 8}) || s.owns(&zk.Stat{}) || !s.owns(&zk.Stat{EphemeralOwner: 7}) {
		t.Error("id 7: want to own exactly what has the owner 7")
	}
}
