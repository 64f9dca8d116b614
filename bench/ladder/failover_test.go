package ladder

import (
	"strings"
	"testing"

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
