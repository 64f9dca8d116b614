package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/wait"
)

func TestTurns_Rest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		parts []time.Duration
		want  time.Duration // of parts and rests
	}{
		{"as long as a part", []time.Duration{2 * time.Millisecond, 3 * time.Millisecond}, 10 * time.Millisecond},
		{"bounded", []time.Duration{time.Second}, time.Second + 8*time.Millisecond},
		{"short parts together", []time.Duration{600 * time.Microsecond, 600 * time.Microsecond, 600 * time.Microsecond}, 3 * time.Millisecond},
		{"none too short", []time.Duration{600 * time.Microsecond}, 600 * time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				turns := wait.NewTurns()
				for _, part := range c.parts {
					time.Sleep(part)
					if !turns.Rest(t.Context()) {
						t.Error("got false before the end of the context")
					}
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("got %v, want %v", took, c.want)
				}
			})
		})
	}
}

func TestTurns_Rest_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		start := time.Now()
		turns := wait.NewTurns()
		if !turns.Rest(ctx) {
			t.Error("got false before anything")
		}
		time.Sleep(3 * time.Millisecond)
		for _, when := range []string{"in", "after"} {
			if turns.Rest(ctx) {
				t.Errorf("got true %s the rest that the context's end cut off", when)
			}
		}
		if took := time.Since(start); took != 5*time.Millisecond {
			t.Errorf("got %v, want the end of the context", took)
		}
	})
}
