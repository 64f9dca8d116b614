package master

import "rideshare/worker/pulse"

// Pulse shows other processes whether the goroutines of a master make progress. The zero value is the pulse of a worker
// that is not master. Pulse takes no lock, so it can be read whatever hangs. It is safe for concurrent use.
type Pulse struct{ taking, committing, finishing pulse.Beat }

// AddWorking adds the parts of the master that are at work, by name, with the number of steps that each has done. A
// part that waits for messages, persdb or the broker is not at work.
func (p *Pulse) AddWorking(working map[string]uint64) {
	p.taking.Add(working, "taking")
	p.committing.Add(working, "committing")
	p.finishing.Add(working, "finishing")
}
