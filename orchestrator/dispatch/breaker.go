package dispatch

import (
	"time"

	"rideshare/internal/dbaas"
)

// slaveGate fails when no slave has been there for longer than the grace: then
// nobody would answer, and saying so at once is better than a time-out.
func (d *Dispatcher) slaveGate(now time.Time) error {
	if n, since := d.cfg.Availability.Slaves(); n == 0 && now.Sub(since) >= d.cfg.ReadGrace {
		return dbaas.Errorf(dbaas.CodeUnavailable, "no slave serves reads at the moment")
	}
	return nil
}

func (d *Dispatcher) masterGate(now time.Time) error {
	if present, since := d.cfg.Availability.Master(); !present && now.Sub(since) >= d.cfg.WriteGrace {
		return dbaas.Errorf(dbaas.CodeUnavailable, "no master serves at the moment")
	}
	return nil
}

// pointWindows is how many messages of point reads count as in flight before
// more have to wait: one for one slave, since a second one only makes batches
// smaller, and two for each of several, so that none of them idles while its
// answer travels. Source: measured, see DESIGN.md.
func pointWindows(slaves int) int {
	if slaves <= 1 {
		return 1
	}
	return 2 * slaves
}

// rangeWindows lets two messages for each slave travel at once: their work is in
// the slave, not in the message.
func rangeWindows(slaves int) int { return 2 * max(slaves, 1) }

// threshold is how many requests must wait to open a further window, for each
// that is open already, and at most. Source: measured, see DESIGN.md.
type threshold struct{ each, most int }

func readThreshold() threshold { return threshold{each: 16, most: 48} }

// writeThreshold is higher, since a message of writes costs three times as much as one of reads.
func writeThreshold() threshold { return threshold{each: 64, most: 64} }

// writePatience is how many messages of writes without an answer let the next one wait longer. The master holds a dozen
// messages: where a commit takes long, as on a slow disk, writes must come in few and full ones.
const writePatience = 9

// masterWindows lets one message gather at the master while it commits another.
func masterWindows(int) int { return 2 }
