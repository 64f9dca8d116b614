package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/wait"
)

func TestFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		d, endsAt   time.Duration
		took        time.Duration
		wantStillOn bool
	}{
		{"whole", time.Minute, time.Hour, time.Minute, true},
		{"cut off", time.Hour, time.Minute, time.Minute, false},
		{"none", 0, time.Minute, 0, true},
		{"below zero", -time.Second, time.Minute, 0, true},
		{"over before", 0, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.endsAt)
				defer cancel()
				start := time.Now()
				if got, took := wait.For(ctx, c.d), time.Since(start); got != c.wantStillOn || took != c.took {
					t.Errorf("got %v after %v, want %v after %v", got, took, c.wantStillOn, c.took)
				}
			})
		})
	}
}

// Often calls at each interval until its context ends. Once stopped before the first interval it never calls, and stopped later it
// goes on until the context ends.
func TestOften_UntilTheContextEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopAfter time.Duration
		want      int
	}{"stopped in time": {500 * time.Millisecond, 0}, "stopped late": {1500 * time.Millisecond, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				calls := 0
				stop := wait.Often(ctx, time.Second, func() { calls++ })
				time.Sleep(c.stopAfter) // of the fake clock
				stop()
				<-ctx.Done()
				synctest.Wait()
				if calls != c.want {
					t.Errorf("got %d calls, want %d", calls, c.want)
				}
			})
		})
	}
}
