package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// A failed call extends a share that counted when the call began, and no other.
func TestArrivals_KeepShare(t *testing.T) {
	read := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // when the call began that read the share
	after := func(seconds float64) time.Time { return read.Add(time.Duration(seconds * float64(time.Second))) }
	for name, c := range map[string]struct {
		none         bool // there is no share yet
		began, ended float64
		want         bool
	}{
		"RefusedAtOnce":         {began: 0.5, ended: 0.5, want: true},
		"TimedOutAfterTheLease": {began: 1.5, ended: 2.5, want: true},
		"PausedBeforeTheCall":   {began: 60, ended: 60, want: false},
		"PausedInTheCall":       {began: 1.5, ended: 60, want: false},
		"LapsedJustNow":         {began: 2, ended: 2, want: false},
		"NoShareYet":            {none: true, began: 0.5, ended: 0.5, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &arrivals{}
			a.shares.on = true
			if !c.none {
				a.shares.until = after(0).Add(lease)
			}
			a.keepShare(after(c.began), func() time.Time { return after(c.ended) })
			if got := a.shares.usable(after(c.ended)) == nil; got != c.want {
				t.Errorf("share counts: %v, want %v", got, c.want)
			}
		})
	}
}

// An orchestrator that was paused, and whose first call after that fails, gives nothing until it has read its share.
func TestShared_PausedThenCutOff_GivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		o := join(t, c, "a", shared(None, "60:60"))
		defer o.die()
		time.Sleep(10 * time.Second)
		o.stop()
		c.set(func() { c.down = true })
		time.Sleep(10 * time.Second)
		o.resume()
		time.Sleep(5 * time.Second)
		if o.take(Write) {
			t.Error("a lapsed share was revived by calls that failed")
		}
		c.set(func() { c.down = false })
		time.Sleep(time.Second)
		if !o.take(Write) {
			t.Error("no request was admitted after the share was read again")
		}
	})
}

// The clock is read under the lock: time never goes backwards for a bucket.
func TestArrivals_ClockUnderTheLock(t *testing.T) {
	a := &arrivals{}
	clock := func() time.Time {
		if a.mu.TryLock() {
			a.mu.Unlock()
			t.Error("the clock was read without the lock")
		}
		return start
	}
	a.use(rules{shared: true}, clock)
	a.share(parts{}, start, clock)
	a.keepShare(start, clock)
}
