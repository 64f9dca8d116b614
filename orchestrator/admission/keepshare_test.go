package admission

import (
	"context"
	"sync"
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

// Requests that came before the limits were shared do not count for the shares.
func TestShared_Begins_EarlierRequestsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator()
		own := shared(None, "900:900")
		own.Limits.Mode = Defaults().Limits.Mode
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		begin := func(name string) *orchestrator {
			o := join(t, c, name, own)
			o.die()
			running.Go(func() { o.Run(ctx) })
			return o
		}
		a, b := begin("a"), begin("b")
		for range 500 {
			a.take(Write)
		}
		if err := a.Patch(ctx, []byte(`{"limits":{"mode":"shared"}}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		for name, o := range map[string]*orchestrator{"a": a, "b": b} {
			if got := o.Status().Shares; got == nil || got.Write != 0.5 || !got.Valid {
				t.Errorf("%s: got %+v, want a half", name, got)
			}
		}
		cancel()
		running.Wait()
	})
}
