package wait_test

import (
	"testing"
	"time"

	"rideshare/internal/wait"
)

// Waits double up to the cap, and begin again after Reset.
func TestBackoff_DoublesUpToTheCap(t *testing.T) {
	t.Parallel()
	b := wait.Backoff{First: 100 * time.Millisecond, Cap: time.Second}
	for range 2 {
		for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			if got := b.Next(); got != want*time.Millisecond {
				t.Errorf("wait %d: got %v, want %d ms", i+1, got, want)
			}
		}
		b.Reset()
	}
}

// Jitter is the part of the wait that is random.
func TestBackoff_Jitter_StaysWithinItsPart(t *testing.T) {
	t.Parallel()
	const first, times = time.Second, 1000
	for _, jitter := range []float64{0.5, 1} {
		least, most := first, time.Duration(0)
		for range times {
			b := wait.Backoff{First: first, Cap: first, Jitter: jitter}
			d := b.Next()
			least, most = min(least, d), max(most, d)
		}
		floor := time.Duration((1 - jitter) * float64(first))
		if least < floor || least > floor+first/10 || most > first || most < first-first/10 {
			t.Errorf("jitter %v: got waits from %v to %v, want them spread from %v to %v", jitter, least, most, floor, first)
		}
	}
}
