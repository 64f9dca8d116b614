package history

import (
	"errors"
	"fmt"
	"sync"
)

// Ledger holds the answers to writes that each leave one row under a name of its own.
// It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex // guards outcomes
	outcomes map[string]outcome
}

// outcome is how a write ended for its client.
type outcome int

const (
	unknown outcome = iota // it may be there, or not
	acked                  // it must be there
	refused                // it must not be there, ever
)

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{outcomes: map[string]outcome{}} }

// Acked notes a write that was acknowledged.
func (l *Ledger) Acked(name string) { l.note(name, acked) }

// Refused notes a write that was refused as certainly not done, and not repeated.
func (l *Ledger) Refused(name string) { l.note(name, refused) }

// Unknown notes a write whose outcome is unknown.
func (l *Ledger) Unknown(name string) { l.note(name, unknown) }

func (l *Ledger) note(name string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[name] = o
}

// Counts returns how many writes ended in each way.
func (l *Ledger) Counts() (nAcked, nRefused, nUnknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.outcomes {
		switch o {
		case acked:
			nAcked++
		case refused:
			nRefused++
		case unknown:
			nUnknown++
		}
	}
	return nAcked, nRefused, nUnknown
}

// Compare compares the answers with the rows that were found by name, and with a
// counter that each write raised by one. It returns the first faults.
func (l *Ledger) Compare(found map[string]int, counter int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var wrong []error
	total := 0
	for name, n := range found {
		total += n
		o, sent := l.outcomes[name]
		switch {
		case !sent:
			wrong = append(wrong, fmt.Errorf("write %s is there, and no client sent it", name))
		case n > 1:
			wrong = append(wrong, fmt.Errorf("write %s had its effect %d times", name, n))
		case o == refused:
			wrong = append(wrong, fmt.Errorf("write %s was refused as certainly not done, and is there", name))
		}
	}
	for name, o := range l.outcomes {
		if o == acked && found[name] == 0 {
			wrong = append(wrong, fmt.Errorf("write %s was acknowledged and is lost", name))
		}
	}
	if counter != total {
		wrong = append(wrong, fmt.Errorf("the counter is %d, with %d effects", counter, total))
	}
	const shown = 5
	if len(wrong) > shown {
		wrong = append(wrong[:shown], fmt.Errorf("and %d more", len(wrong)-shown))
	}
	return errors.Join(wrong...)
}
