package progressbar_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/progressbar"
)

// run shows, in a bubble, a run of four steps of three seconds each, and returns what was written.
func run(t *testing.T, columns func() int) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(*testing.T) {
		steps := progressbar.Output{Writer: &out, Columns: columns}.Plan(4)
		defer steps.End()
		steps.Begin("starting")
		time.Sleep(6200 * time.Millisecond)
		for i := range 4 {
			steps.Begin("step %d", i+1)
			time.Sleep(3 * time.Second)
			steps.Done()
		}
	})
	return out.String()
}

// Where there is no terminal a line comes every five seconds, however many steps there are. The start does not count for the time left.
func TestSteps_NoTerminal_ALineEveryFewSeconds(t *testing.T) {
	if got, want := run(t, nil), "0%  starting\n25%  8s left  step 2\n50%  3s left  step 3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// On a terminal one line is rewritten, and the last state stays. The bar has the room that the text leaves; without room for it, the text is cut.
func TestSteps_Terminal_ABarThatIsRewritten(t *testing.T) {
	for columns, want := range map[int]struct{ half, last string }{
		80: {"[############------------] 50%  6s left  step 3", "[########################] 100%  0s left  step 4"},
		0:  {"[############------------] 50%  6s left  step 3", "[########################] 100%  0s left  step 4"},
		30: {"[###---] 50%  6s left  step 3", "100%  0s left  step 4"},
		10: {"50%  6s l", "100%  0s "},
	} {
		got := run(t, func() int { return columns })
		if !strings.Contains(got, "\r\x1b[K"+want.half+"\r") || !strings.HasSuffix(got, "\r\x1b[K"+want.last+"\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%d columns: got %q, want %q, and %q at the end", columns, got, want.half, want.last)
		}
	}
}

// What takes a known time is shown by that time, also when it takes longer.
func TestTimed(t *testing.T) {
	var out strings.Builder
	synctest.Test(t, func(*testing.T) {
		end := progressbar.Output{Writer: &out}.Timed(8*time.Second, "load")
		time.Sleep(11 * time.Second)
		end()
		end()
	})
	if got, want := out.String(), "62%  3s left  load\n100%  0s left  load\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
