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
