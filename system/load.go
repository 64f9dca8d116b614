package system

import (
	"cmp"
	"context"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/dispatch"
	"rideshare/orchestrator/scale"
)

// loadMeter measures the load for the scaling policies. Only the scaler's goroutine may use it.
type loadMeter struct {
	parts *orchestratorParts
	at    time.Time
	lanes dispatch.LaneStats // totals of all reads by slaves
	work  map[dbaas.WorkerID]work
}

// work is a slave's counters since its start, in microseconds.
type work struct {
	busy, slots int64
}

func workOf(s *workerapi.Status) work {
	return work{busy: s.Counters[counterBusy], slots: s.Counters[counterPlaces]}
}

// since returns the busy fraction of the time since before.
func (w work) since(before work) float64 {
	return float64(w.busy-before.busy) / float64(cmp.Or(w.slots-before.slots, 1))
}

func newLoadMeter(c *orchestratorParts) *loadMeter { return &loadMeter{parts: c, at: time.Now()} }

// Sample returns the load since the last call. It does not set the number of reads and the wanted number of slaves: the scaler knows them.
func (m *loadMeter) Sample(ctx context.Context) scale.Sample {
	var s scale.Sample
	ctx, cancel := context.WithTimeout(ctx, 2*statusTimeout)
	defer cancel()
	m.dispatched(&s)
	head, err := m.parts.store.Head(ctx) // read before the slaves' positions, so that they may be ahead of it, but not behind
	if err != nil {
		s.Missing = append(s.Missing, "persdb")
	}
	statuses, missing := m.parts.statuses(ctx)
	slices.Sort(missing)
	s.Missing = append(s.Missing, missing...)
	m.slaves(&s, head, statuses)
	return s
}

// dispatched fills in the orchestrator's view of its reads.
func (m *loadMeter) dispatched(s *scale.Sample) {
	now := time.Now()
	var lanes dispatch.LaneStats
	for _, l := range m.parts.dispatcher.Stats() {
		if l.Slaves {
			lanes.Sent += l.Sent
			lanes.Waited += l.Waited
			lanes.Took += l.Took
		}
	}
	if sent := lanes.Sent - m.lanes.Sent; sent > 0 {
		s.QueueAge = scale.InMilliseconds((lanes.Waited - m.lanes.Waited) / time.Duration(sent))
	}
	// Little's law: the mean number present is the arrival rate times the mean time each stays.
	if window := now.Sub(m.at); window > 0 {
		s.InFlight = float64(lanes.Took-m.lanes.Took) / float64(window)
	}
	m.at, m.lanes = now, lanes
}

// slaves fills in what the slaves report.
func (m *loadMeter) slaves(s *scale.Sample, head dbaas.Head, statuses []workerapi.Status) {
	seen := map[dbaas.WorkerID]work{}
	busy := 0.0
	for _, st := range statuses {
		if st.Role != dbaas.RoleSlave || !st.Ready {
			continue
		}
		s.Slaves++
		if head.Seq > st.Applied {
			s.Lag = max(s.Lag, uint64(head.Seq-st.Applied))
		}
		w := workOf(&st)
		busy += w.since(m.work[st.ID]) // zero for a new slave: its whole life is in this window
		seen[st.ID] = w
	}
	if s.Slaves > 0 {
		s.Busy = busy / float64(s.Slaves)
	}
	m.work = seen
}
