// Package pulse shows other processes whether the goroutines of a worker make progress. It takes no lock, so it can be
// read whatever hangs.
package pulse

import "sync/atomic"

// Beat is the pulse of one part of a worker. A goroutine of the part calls Work when it begins to work, and Rest when it
// ends or begins to wait for something else. A part that is at work and whose number of steps does not change is stuck.
// The zero value is a part at rest. Beat is safe for concurrent use.
type Beat struct {
	steps   atomic.Uint64
	working atomic.Int64 // goroutines
}

// Work records that a goroutine of the part begins to work.
func (b *Beat) Work() {
	b.steps.Add(1)
	b.working.Add(1)
}

// Rest records that a working goroutine ends or begins to wait.
func (b *Beat) Rest() {
	b.steps.Add(1)
	b.working.Add(-1)
}

// Step records that a working goroutine has made progress.
func (b *Beat) Step() { b.steps.Add(1) }

// Wait calls f, in which the goroutine waits. The goroutine is at work before and after f, but not during f.
func (b *Beat) Wait(f func()) {
	b.Rest()
	defer b.Work()
	f()
}

// Add adds the part and the number of its steps to working, if the part is at work.
func (b *Beat) Add(working map[string]uint64, part string) {
	steps := b.steps.Load()
	if b.working.Load() > 0 {
		working[part] = steps
	}
}
