package dispatch

import (
	"time"

	"rideshare/internal/dbaas"
)

// slaveGate returns an error when there has been no slave for ReadGrace or longer: no slave
// would answer, and failing immediately is better than timing out.
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

// pointWindows returns how many messages of point reads may be in flight. With one slave it is one message, since a
// second message only makes the batches smaller. With several slaves it is two messages per slave, so that no slave
// idles while its answer travels. Source: measured, see DESIGN.md.
func pointWindows(slaves int) int {
	if slaves <= 1 {
		return 1
	}
	return 2 * slaves
}

// rangeWindows returns how many messages of range reads may be in flight: two per slave. Their cost is
// the work in the slave, not the message.
func rangeWindows(slaves int) int { return 2 * max(slaves, 1) }

// threshold says how many requests must wait before another message is sent: min(each × n, most)
// with n messages in flight. Source: measured, see DESIGN.md.
type threshold struct{ each, most int }

func readThreshold() threshold { return threshold{each: 16, most: 48} }

// writeThreshold is higher, since a message of writes costs three times as much as one of reads.
func writeThreshold() threshold { return threshold{each: 64, most: 64} }

// writePatience is the largest number of stale messages of writes that make the next message wait longer. The master
// holds a dozen messages: if a commit takes long, as on a slow disk, writes must arrive in few and full messages.
const writePatience = 9

// masterWindows returns 2: one message can queue at the master while it commits another.
func masterWindows(int) int { return 2 }
