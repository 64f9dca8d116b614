package control

import (
	"context"
	"maps"
	"math/bits"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// hungTicks is how many ticks in a row a worker must be silent or stuck before it counts as hung. Together they take
// Config.HungAfter. Silence is counted in ticks of this process, not in time, and ticks that come late do not count. So
// an orchestrator that was stopped, or gets too little CPU time, does not mistake workers for hung ones.
const hungTicks = 6

// certainTicks is how many ticks in a row a worker must name the same stuck part, and keep answering, before it counts
// as certainly hung. Then no other worker need have answered, because its own answers show that the orchestrator, the
// network and the machine are well; and a master is killed even without a successor.
const certainTicks = 3 * hungTicks

// hang says why a worker counts as hung, and whether that is certain.
type hang struct {
	reason  string
	certain bool
}

// The reasons for a worker to count as hung.
const (
	reasonSilent = "hung: no answer"
	reasonStuck  = "hung: stuck while " // followed by the part
)

// vital is what the ticks have shown of one worker.
type vital struct {
	// answered has a bit for each tick in which an answer came, the last tick in the lowest bit.
	answered uint8
	// ticks counts the ticks since the worker was first asked.
	ticks int
	// stuck has the parts that were at work at the last answer, with how long each has done no step.
	stuck map[string]stuck
	// pulse is the newest answer since the last tick, nil if there was none.
	pulse *workerapi.Pulse
}

// stuck is a part at work: its number of steps, and for how many ticks in a row that number has not changed.
type stuck struct {
	steps uint64
	ticks int
}

// recent is the mask of the last hungTicks ticks in vital.answered.
const recent = 1<<hungTicks - 1

// tick ends one tick. busy means that the worker has shown progress by other means than its pulse.
func (v *vital) tick(busy bool) {
	v.ticks++
	v.answered <<= 1
	if v.pulse != nil || busy {
		v.answered |= 1
	}
	if busy {
		v.stuck = nil
	} else if v.pulse != nil {
		now := map[string]stuck{}
		for part, steps := range v.pulse.Working {
			if before, ok := v.stuck[part]; ok && before.steps == steps {
				now[part] = stuck{steps, before.ticks + 1}
			} else {
				now[part] = stuck{steps: steps}
			}
		}
		v.stuck = now
	}
	v.pulse = nil
}

// hung returns why the worker counts as hung. The reason is "" if it does not.
func (v *vital) hung() hang {
	if v.ticks >= hungTicks && v.answered&recent == 0 {
		return hang{reason: reasonSilent}
	}
	for part, s := range v.stuck {
		if s.ticks >= hungTicks {
			return hang{reason: reasonStuck + part, certain: s.ticks >= certainTicks && v.attentive()}
		}
	}
	return hang{}
}

// attentive reports whether the worker answered in at least hungTicks-1 of the last hungTicks ticks. If so, the
// orchestrator, the network and the machine were well enough for the answers of other workers too.
func (v *vital) attentive() bool {
	return bits.OnesCount8(v.answered&recent) >= hungTicks-1
}

// hungOf returns the workers that count as hung, with the reasons. If most workers seem to hang, or none of the others is
// attentive, the fault may lie elsewhere: then hungOf returns only the workers that certainly hang.
func hungOf(vitals map[dbaas.WorkerID]*vital) map[dbaas.WorkerID]hang {
	hung, witness := map[dbaas.WorkerID]hang{}, false
	for id, v := range vitals {
		if h := v.hung(); h.reason != "" {
			hung[id] = h
		} else {
			witness = witness || v.attentive()
		}
	}
	if !witness || 2*len(hung) > len(vitals) {
		maps.DeleteFunc(hung, func(_ dbaas.WorkerID, h hang) bool { return !h.certain })
	}
	return hung
}

// every calls tick each period until ctx ends. counts is false if the tick came late.
func (l *Loop) every(ctx context.Context, period time.Duration, tick func(ctx context.Context, now time.Time, counts bool)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for last := l.cfg.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := l.cfg.Now()
		if gap := now.Sub(last); gap >= period/2 { // else it follows a late tick too closely
			last = now
			tick(ctx, now, gap < 2*period)
		}
	}
}

// tickPulses asks every registered worker for its next pulse, each in a goroutine of its own, if this orchestrator leads. Before that
// it ends the tick, unless counts is false because the tick came late.
func (l *Loop) tickPulses(ctx context.Context, now time.Time, counts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.cfg.WritesAnswered()
	busy := writes != l.writes
	l.writes = writes
	watched := map[dbaas.WorkerID]*vital{}
	for _, in := range l.view.list.instances {
		m := l.memory[in.ID]
		if !l.leading || m == nil || !m.present || !in.Running {
			continue
		}
		v := l.vitals[in.ID]
		if v == nil {
			v = &vital{}
		} else if counts {
			v.tick(busy && m.role == dbaas.RoleMaster)
		}
		watched[in.ID] = v
		l.jobs.Go(func() { l.askPulse(ctx, m, v, in, l.cfg.HungAfter) })
	}
	l.vitals = watched
	l.noteHung(ctx, hungOf(watched), now)
}

// askPulse asks one worker for a sign of life, and waits at most patience for it.
func (l *Loop) askPulse(ctx context.Context, m *memory, v *vital, in launch.Instance, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := l.cfg.Workers.Pulse(ctx, in.Control)
	if err != nil || p.ID != "" && p.ID != in.ID {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.pulse, m.heardAt = &p, l.cfg.Now()
}

// noteHung records the workers that count as hung, and wakes the loop if there is news. The caller holds mu.
func (l *Loop) noteHung(ctx context.Context, hung map[dbaas.WorkerID]hang, now time.Time) {
	for id, h := range hung {
		m := l.memory[id]
		before, known := l.hung[id]
		if before == h || m.stopping {
			continue
		}
		l.wake.Give()
		if known {
			continue
		}
		m.killSince = time.Time{} // a kill that an earlier suspicion began no longer counts
		l.cfg.Log.WarnContext(ctx, "worker hangs", logkey.Worker, string(id), logkey.PID, m.pid, logkey.Role, string(m.role), logkey.Reason, h.reason)
		l.emit(EventMembership, WorkerEvent{PID: m.pid, Worker: id, Host: m.host, Role: m.role, Epoch: m.epoch, Change: "hung"})
	}
	l.hung, l.hungAt = hung, now
}

// hungAs returns why a worker counts as hung. A finding older than half of Config.HungAfter does not count: this process
// itself has stood still since.
// The caller holds mu.
func (l *Loop) hungAs(id dbaas.WorkerID, now time.Time) hang {
	if now.Sub(l.hungAt) >= l.cfg.HungAfter/2 {
		return hang{}
	}
	return l.hung[id]
}
