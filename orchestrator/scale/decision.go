package scale

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/coord"
)

// Decision is the decision of one tick, with its reason.
type Decision struct {
	At time.Time `json:"at"`
	// By is the orchestrator that decided.
	By     string `json:"by"`
	Policy string `json:"policy"`
	// Count is how many reads arrived in the window.
	Count  int `json:"count"`
	Wanted int `json:"wanted"`
	// Done reports whether the wanted number was written for the control loop. A failed write
	// is retried until the next tick overtakes the decision.
	Done   bool   `json:"done"`
	Why    string `json:"why"`
	Sample Sample `json:"sample"`
	// Would is what the other policies proposed for the same sample.
	Would []Proposal `json:"would"`
}

func (d *Decision) same(other *Decision) bool { return d.By == other.By && d.At.Equal(other.At) }

// keptDecisions is how many decisions are kept: 8 hours at the default period
// of 2 minutes, about 150 KB, which one value of the coordinator holds.
const keptDecisions = 240

// ledger is the scaling state that all orchestrators of a stack share: one value in the
// coordinator, written with compare-and-swap.
type ledger struct {
	// HandedOver is the number of reads handed over by orchestrators whose ticks fell into the window of
	// another orchestrator. They count in the next decision.
	HandedOver int        `json:"handed_over"`
	Decisions  []Decision `json:"decisions"`
}

func decodeLedger(data []byte) (ledger, error) {
	var l ledger
	if err := json.Unmarshal(data, &l); err != nil {
		return ledger{}, fmt.Errorf("scaling ledger: %w", err)
	}
	return l, nil
}

// encode returns the value for the coordinator. If the value is too large, encode leaves out
// the oldest decisions.
func (l ledger) encode() ([]byte, error) {
	for {
		data, err := json.Marshal(l)
		if err != nil {
			return nil, fmt.Errorf("scaling ledger: %w", err)
		}
		if len(data) <= coord.MaxValueBytes || len(l.Decisions) == 0 {
			return data, nil
		}
		l.Decisions = l.Decisions[(len(l.Decisions)+1)/2:]
	}
}

// put adds d, or replaces the entry for d if there is one.
func (l *ledger) put(d Decision) {
	if i := l.find(&d); i >= 0 {
		l.Decisions[i] = d
		return
	}
	l.Decisions = append(l.Decisions, d)
	if over := len(l.Decisions) - keptDecisions; over > 0 {
		l.Decisions = slices.Delete(l.Decisions, 0, over)
	}
}

func (l *ledger) find(d *Decision) int {
	return slices.IndexFunc(l.Decisions, func(other Decision) bool { return other.same(d) })
}

// newest returns the last decision, nil if there is none.
func (l *ledger) newest() *Decision {
	if len(l.Decisions) == 0 {
		return nil
	}
	return &l.Decisions[len(l.Decisions)-1]
}

// samples returns the samples of all decisions, oldest first.
func (l *ledger) samples() []Sample {
	out := make([]Sample, 0, len(l.Decisions))
	for i := range l.Decisions {
		out = append(out, l.Decisions[i].Sample)
	}
	return out
}
