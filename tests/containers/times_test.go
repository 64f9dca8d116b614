package containers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// samples is how many slaves are killed to measure.
const samples = 20

// testNewSlaves kills a slave repeatedly. Each time another one serves soon. The times are printed but not judged,
// because they depend on the load of the machine.
func (s *stack) testNewSlaves(t *testing.T) {
	t.Helper()
	var reaction, serving []time.Duration
	for range samples {
		victim := s.member(t, "slave")
		killed := time.Now()
		if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %d (this test needs root): %v", victim.PID, err)
		}
		var serves time.Time
		testenv.Eventually(t, wholeLimit, func() error {
			c, err := s.cluster(t.Context())
			for _, m := range c.Members {
				if m.Role == "slave" && m.Ready && m.Container != victim.Container {
					serves = time.Now()
					return nil
				}
			}
			return fmt.Errorf("no new slave in %+v: %w", c, err)
		})
		first, started := s.actions(t, killed)
		reaction = append(reaction, first.Sub(killed))
		serving = append(serving, serves.Sub(started))
	}
	for name, times := range map[string][]time.Duration{
		"SIGKILL of a slave to the loop's first action": reaction, "start request to a slave that serves": serving,
	} {
		slices.Sort(times)
		t.Logf("TIME %s: median %v, least %v, most %v, of %d", name, times[len(times)/2].Round(time.Millisecond),
			times[0].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond), len(times))
	}
}

// actions returns when the control loop first acted after a time, and when it started a worker.
func (s *stack) actions(t *testing.T, since time.Time) (first, start time.Time) {
	t.Helper()
	text := s.docker(t, "logs", "--since", since.UTC().Format(time.RFC3339Nano), s.of(t, "orchestrator").ID)
	for line := range strings.Lines(text) {
		var entry struct {
			Time        time.Time
			Msg, Action string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg != "action taken" {
			continue
		}
		if first.IsZero() {
			first = entry.Time
		}
		if start.IsZero() && entry.Action == "start" {
			start = entry.Time
		}
	}
	if first.IsZero() || start.IsZero() {
		t.Fatalf("the orchestrator's log since %v tells of no start: %s", since, text)
	}
	return first, start
}
