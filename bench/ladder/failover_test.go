package ladder

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/progressbar"
)

// A short run on the embedded system: every kill is measured, and nothing is lost, doubled or there unasked.
func TestFailover_Embedded_MeasuresEachKill(t *testing.T) {
	const kills = 2
	for _, mode := range []FailoverMode{FailoverKill, FailoverCrash, FailoverPlanned} {
		t.Run(string(mode), func(t *testing.T) {
			var out strings.Builder
			progress := progressbar.Output{Writer: &out, Columns: func() int { return 0 }}
			r, err := Failover(t.Context(), FailoverConfig{Mode: mode, Kills: kills, Slaves: 1, Writes: 50, Reads: 50, Progress: progress})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kills != kills || r.Unavailable.N != kills || r.Serving.N != kills {
				t.Errorf("got %+v, want %d kills measured", r, kills)
			}
			if want := "] 100%  0s left  looking for lost writes\n"; !strings.HasSuffix(out.String(), want) {
				t.Errorf("got progress %q, want %q at the end", out.String(), want)
			}
			if r.Lost+r.Doubled+r.Unasked > 0 || r.Writes.OK == 0 || r.Writes.Other+r.Reads.Other > 0 {
				t.Errorf("got %+v, want writes acknowledged, none lost, doubled or unasked, and only agreed answers", r)
			}
		})
	}
}

// A kill waits for the event of its new master, however late. If an event does not come, later kills do not wait. Without a stream of
// events no kill waits.
func TestFailover_EventComesLate_IsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failover{streamed: true}
		const late = 5 * time.Second
		go func() {
			time.Sleep(late)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes = append(f.changes, change{at: time.Now(), PID: 8, Role: "master", Change: "serving"})
		}()
		hear := func(pid int, least time.Duration) {
			t.Helper()
			start := time.Now()
			err := f.hear(t.Context(), kill{pid: pid, at: start, whole: start})
			if took := time.Since(start); err != nil || took < least || took > least+2*pollEvery {
				t.Errorf("after the kill of %d: got %v after %v, want %v", pid, err, took, least)
			}
		}
		hear(7, late)
		hear(8, failoverWhole)
		hear(8, 0)
		f = &failover{}
		hear(8, 0)
	})
}
