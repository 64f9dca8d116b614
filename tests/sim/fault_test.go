package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

// fault is a fault with its name. begin starts it and returns a function that ends it, or nil if there is nothing to
// end.
type fault struct {
	name  string
	begin func(w *world, rnd *rand.Rand) (heal func())
}

// faults are the faults that nemesis draws from, all with the same probability.
var faults = []fault{
	{"kill the master", killMaster},
	{"kill the master", killMaster},
	{"kill a slave", func(w *world, rnd *rand.Rand) func() { return onSlave(w, rnd, kill) }},
	{"kill everybody", killEverybody},
	{"stop the master", func(w *world, rnd *rand.Rand) func() { return onMaster(w, rnd, pause) }},
	{"stop a slave", func(w *world, rnd *rand.Rand) func() { return onSlave(w, rnd, pause) }},
	{"cut the master off the coordinator", func(w *world, rnd *rand.Rand) func() { return onMaster(w, rnd, cutCoordinator) }},
	{"cut a slave off the coordinator", func(w *world, rnd *rand.Rand) func() { return onSlave(w, rnd, cutCoordinator) }},
	{"cut the master off the bus", func(w *world, rnd *rand.Rand) func() { return onMaster(w, rnd, cutBus) }},
	{"cut a slave off the bus", func(w *world, rnd *rand.Rand) func() { return onSlave(w, rnd, cutBus) }},
	{"trouble between the master and persdb", func(w *world, rnd *rand.Rand) func() { return onMaster(w, rnd, cutPersdb) }},
	{"trouble between a slave and persdb", func(w *world, rnd *rand.Rand) func() { return onSlave(w, rnd, cutPersdb) }},
	{"late commits of a master that dies", lateCommits},
	{"trouble with persdb", persdbTrouble},
	{"coordinator dead", coordinatorDead},
	{"coordinator frozen", coordinatorFrozen},
	{"broker dead", brokerDead},
	{"broker drops everything", brokerDrops},
	{"broker alarm", brokerAlarm},
	{"confirms lost", confirmsLost},
	{"syncQ loses, doubles and reorders", syncChaos},
	{"queue deleted", queueDeleted},
	{"engine away", engineAway},
	{"engine loses answers", engineLoses},
	{"orchestrator dies", orchestratorDies},
	{"a second orchestrator", secondOrchestrator},
	{"another number of slaves", rescale},
	{"hand-over", handOver},
	{"an epoch claimed in vain", strayClaim},
	{"persdb's clock steps", clockSteps(persdbClock)},
	{"an orchestrator's clock steps", clockSteps(orchestratorClock)},
}

// nemesis begins faults, some of them at the same time, and ends them, until ctx ends.
func (w *world) nemesis(ctx context.Context) {
	rnd := w0(w.seed, "nemesis")
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		sleep(ctx, 200*time.Millisecond+time.Duration(rnd.Int64N(int64(7*time.Second))))
		if ctx.Err() != nil {
			return
		}
		f := faults[rnd.IntN(len(faults))]
		lasts := 100*time.Millisecond + time.Duration(rnd.Int64N(int64(12*time.Second)))
		w.tell("%s, for %v", f.name, lasts.Round(time.Millisecond))
		heal := f.begin(w, rnd)
		if heal == nil {
			continue
		}
		running.Go(func() {
			sleep(ctx, lasts)
			w.tell("%s: over", f.name)
			heal()
		})
	}
}

func onMaster(w *world, rnd *rand.Rand, f func(*world, *node, *rand.Rand) func()) func() {
	master, _ := w.members()
	if master == nil {
		return nil
	}
	return f(w, master, rnd)
}

func onSlave(w *world, rnd *rand.Rand, f func(*world, *node, *rand.Rand) func()) func() {
	_, slaves := w.members()
	if len(slaves) == 0 {
		return nil
	}
	return f(w, slaves[rnd.IntN(len(slaves))], rnd)
}

func kill(w *world, n *node, _ *rand.Rand) func() {
	_ = w.engine.Launcher.Kill(context.Background(), n.Status().ID)
	return nil
}

func killMaster(w *world, rnd *rand.Rand) func() { return onMaster(w, rnd, kill) }

func killEverybody(w *world, rnd *rand.Rand) func() {
	master, slaves := w.members()
	for _, n := range append(slaves, master) {
		if n != nil {
			kill(w, n, rnd)
		}
	}
	return nil
}

func pause(_ *world, n *node, _ *rand.Rand) func() {
	n.pause()
	return n.resume
}

func cutCoordinator(_ *world, n *node, _ *rand.Rand) func() {
	n.coord.Partition()
	return n.coord.Heal
}

func cutBus(_ *world, n *node, _ *rand.Rand) func() {
	n.bus.Partition()
	return n.bus.Heal
}

// anyTrouble draws a trouble for calls to persdb.
func anyTrouble(rnd *rand.Rand) trouble {
	switch rnd.IntN(6) {
	case 5:
		return trouble{dies: true}
	case 0:
		return trouble{refuse: true}
	case 1:
		return trouble{hang: true}
	case 2:
		return trouble{delay: 100 * time.Millisecond}
	case 3:
		return trouble{delay: 12 * time.Second}
	default:
		return trouble{lose: 0.5}
	}
}

func cutPersdb(_ *world, n *node, rnd *rand.Rand) func() {
	n.line.set(anyTrouble(rnd))
	return func() { n.line.set(trouble{}) }
}

func persdbTrouble(w *world, rnd *rand.Rand) func() {
	w.persdb.set(anyTrouble(rnd))
	return func() { w.persdb.set(trouble{}) }
}

// lateCommits delays the master's commits, so that they arrive after its death, when another master may have taken
// over.
func lateCommits(w *world, rnd *rand.Rand) func() {
	return onMaster(w, rnd, func(w *world, n *node, rnd *rand.Rand) func() {
		n.line.set(trouble{delay: 8 * time.Second})
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
		kill(w, n, rnd)
		return nil
	})
}

func coordinatorDead(w *world, _ *rand.Rand) func() {
	w.coord.Stop()
	return w.coord.Start
}

func coordinatorFrozen(w *world, _ *rand.Rand) func() {
	w.coord.Pause()
	return w.coord.Resume
}

func brokerDead(w *world, _ *rand.Rand) func() {
	w.broker.Stop()
	return w.broker.Start
}

func brokerDrops(w *world, _ *rand.Rand) func() {
	w.broker.Disconnect()
	return nil
}

func brokerAlarm(w *world, _ *rand.Rand) func() {
	w.broker.Block()
	return w.broker.Unblock
}

// confirmsLost loses confirms of the broker, so that orchestrators repeat messages that the broker has: such a write
// arrives twice.
func confirmsLost(w *world, rnd *rand.Rand) func() {
	rnd = rand.New(rand.NewPCG(rnd.Uint64(), 0))
	w.broker.SetConfirmLost(func(string, mq.Queue) bool { return rnd.IntN(2) == 0 })
	return func() { w.broker.SetConfirmLost(nil) }
}

func syncChaos(w *world, rnd *rand.Rand) func() {
	rnd = rand.New(rand.NewPCG(rnd.Uint64(), 0))
	held := map[string][]byte{}
	w.broker.SetSyncFault(func(subscriber string, body []byte) [][]byte {
		deliver := [][]byte{body}
		switch rnd.IntN(5) {
		case 0:
			return nil
		case 1:
			deliver = append(deliver, bytes.Clone(body))
		case 2:
			held[subscriber] = body
			return nil
		}
		if late, ok := held[subscriber]; ok {
			deliver = append(deliver, late)
			delete(held, subscriber)
		}
		return deliver
	})
	return func() { w.broker.SetSyncFault(nil) }
}

func queueDeleted(w *world, rnd *rand.Rand) func() {
	w.broker.DeleteQueue(mq.WorkQueues()[rnd.IntN(3)])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted = nil // some of these writes may have been in the deleted queue
	return nil
}

func engineAway(w *world, _ *rand.Rand) func() {
	w.engine.set(true, false)
	return func() { w.engine.set(false, false) }
}

func engineLoses(w *world, _ *rand.Rand) func() {
	w.engine.set(false, true)
	return func() { w.engine.set(false, false) }
}

// orchestratorDies kills an orchestrator, possibly the only one. Another orchestrator is started when the fault ends.
func orchestratorDies(w *world, rnd *rand.Rand) func() {
	if o := w.pick(rnd); o != nil {
		w.kill(o)
	}
	return func() { w.startOrchestrator() }
}

// secondOrchestrator starts one more orchestrator. When the fault ends, a random one of them is killed.
func secondOrchestrator(w *world, rnd *rand.Rand) func() {
	w.startOrchestrator()
	rnd = rand.New(rand.NewPCG(rnd.Uint64(), 0))
	return func() {
		if o := w.pick(rnd); o != nil {
			w.kill(o)
		}
	}
}

func rescale(w *world, rnd *rand.Rand) func() {
	slaves := 1 + rnd.IntN(4)
	if o := w.pick(rnd); o != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = o.loop.SetSlaves(ctx, slaves) // it may be refused
	}
	return nil
}

// handOver asks for another master and does not wait for the answer.
func handOver(w *world, rnd *rand.Rand) func() {
	o := w.pick(rnd)
	if o == nil {
		return nil
	}
	w.late.Go(func() {
		switch _, err := o.loop.HandOver(context.Background(), 0, dbaas.Seen{}); dbaas.CodeOf(err) { //nolint:exhaustive // all other codes are wrong.
		case dbaas.CodeOK, dbaas.CodeConflict, dbaas.CodeUnavailable:
		default:
			w.fail(fmt.Errorf("hand-over: got %w, want ok, conflict or unavailable", err))
		}
	})
	return nil
}

// strayClaim acts as an orchestrator that has died between claiming an epoch and giving it to a worker.
func strayClaim(w *world, _ *rand.Rand) func() {
	_, _ = claim(context.Background(), w.store, w.fenced) // if the claim fails, there is no fault
	return nil
}
