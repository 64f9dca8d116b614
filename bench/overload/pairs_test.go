package overload

import (
	"testing"

	"rideshare/bench/ladder"
)

// n6 fails if a write was lost, doubled, or done although it was refused, or if writes did not come back after a kill.
func TestResult_Failover(t *testing.T) {
	for name, test := range map[string]struct {
		report ladder.FailoverReport
		ok     bool
	}{
		"Right":   {ladder.FailoverReport{Kills: 2, Unavailable: ladder.Spread{N: 2}}, true},
		"NotBack": {ladder.FailoverReport{Kills: 2, Unavailable: ladder.Spread{N: 1}}, false},
		"Lost":    {ladder.FailoverReport{Lost: 1}, false},
		"Doubled": {ladder.FailoverReport{Doubled: 1}, false},
		"Unasked": {ladder.FailoverReport{Unasked: 1}, false},
	} {
		var r Result
		r.failover("", &test.report)
		if r.finish(); r.OK != test.ok {
			t.Errorf("%s: got ok %v and the checks %+v", name, r.OK, r.Checks)
		}
	}
}
