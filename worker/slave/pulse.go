package slave

import (
	"fmt"
	"sync/atomic"

	"rideshare/worker/pulse"
)

// vital shows other processes whether the goroutines that serve reads make progress.
type vital struct {
	taking pulse.Beat
	// places has one element for each fast slot. A run has a place from the moment it gets its slot until it ends or its
	// current read is slow. So a healthy run does a step every few milliseconds.
	places []place
}

// place is the pulse of one fast run.
type place struct {
	name  string
	beat  pulse.Beat
	taken atomic.Bool
}

func newPlaces(n int) []place {
	places := make([]place, n)
	for i := range places {
		places[i].name = fmt.Sprintf("reading in slot %d", i+1)
	}
	return places
}

// enter takes a free place and marks it as at work. The caller has a fast slot, so a place is free.
func (v *vital) enter() *place {
	for {
		for i := range v.places {
			if p := &v.places[i]; p.taken.CompareAndSwap(false, true) {
				p.beat.Work()
				return p
			}
		}
	}
}

func (p *place) leave() {
	p.beat.Rest()
	p.taken.Store(false)
}

// AddWorking adds the parts that are at work, by name, with the number of steps that each has done. A read that waits
// for its position, for a slot or for the broker is not at work. A read that is known to be slow is not at work either:
// its own time limit ends it.
func (e *Executor) AddWorking(working map[string]uint64) {
	e.vital.taking.Add(working, "taking reads")
	for i := range e.vital.places {
		e.vital.places[i].beat.Add(working, e.vital.places[i].name)
	}
}
