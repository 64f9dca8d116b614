package history_test

import (
	"strings"
	"testing"

	"rideshare/tests/history"
)

// The rows found are compared with the answers.
func TestLedger_Compare_TellsEachFault(t *testing.T) {
	for name, c := range map[string]struct {
		found   map[string]int
		counter int
		want    string
	}{
		"AsTold":         {found: map[string]int{"acked": 1}, counter: 1},
		"UnknownIsThere": {found: map[string]int{"acked": 1, "unknown": 1}, counter: 2},
		"AckedIsLost":    {counter: 0, want: "acked was acknowledged and is lost"},
		"Doubled":        {found: map[string]int{"acked": 2}, counter: 2, want: "2 times"},
		"RefusedIsThere": {found: map[string]int{"acked": 1, "refused": 1}, counter: 2, want: "refused as certainly not done"},
		"NeverSent":      {found: map[string]int{"acked": 1, "stranger": 1}, counter: 2, want: "no client sent it"},
		"Miscounted":     {found: map[string]int{"acked": 1}, counter: 2, want: "the counter is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := history.NewLedger()
			l.Acked("acked")
			l.Refused("refused")
			l.Unknown("unknown")
			err := l.Compare(c.found, c.counter)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("compare: got %v, want %q", err, c.want)
			}
		})
	}
}
