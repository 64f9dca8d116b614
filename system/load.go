package system

import (
	"cmp"
	"context"
	"maps"
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
	// work has the counters of the workers at the last call. A worker that did not answer then keeps its older counters.
	work map[dbaas.WorkerID]work
	// all reports that every running worker answered at the last call. Only then is a worker that is missing in work a new worker.
	all bool
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
	m.slaves(&s, head, statuses, len(missing) == 0)
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

// slaves fills in what the slaves report. all reports that every running worker has answered.
func (m *loadMeter) slaves(s *scale.Sample, head dbaas.Head, statuses []workerapi.Status, all bool) {
	seen := map[dbaas.WorkerID]work{}
	if !all {
		maps.Copy(seen, m.work)
	}
	busy, unknown := 0.0, false
	for i := range statuses {
		st := &statuses[i]
		before, known := m.work[st.ID]
		now := workOf(st)
		seen[st.ID] = now
		if st.Role != dbaas.RoleSlave || !st.Ready {
			continue
		}
		s.Slaves++
		if head.Seq > st.Applied {
			s.Lag = max(s.Lag, uint64(head.Seq-st.Applied))
		}
		if known || m.all {
			busy += now.since(before) // zero for a new slave: its whole life is in this window
		} else {
			unknown = true // the slave may be older than this window, as after a start of the orchestrator
		}
	}
	if unknown {
		s.Missing = append(s.Missing, "busy")
	} else if s.Slaves > 0 {
		s.Busy = busy / float64(s.Slaves)
	}
	m.work, m.all = seen, all
}
