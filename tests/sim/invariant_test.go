package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/control"
	"rideshare/persdb/commitlog"
)

// healLimit is how long the system may take to be whole again after the last fault: a worker
// that has lost its snapshot to a fault waits a minute before it is given up.
const healLimit = 3 * time.Minute

// heal ends every fault and waits until the system is whole. It fails the run, with what is missing, if that takes longer than
// healLimit (I4, I8).
func (w *world) heal() {
	w.tell("all is healed")
	w.persdb.set(trouble{})
	w.engine.set(false, false)
	w.broker.SetSyncFault(nil)
	w.broker.SetConfirmLost(nil)
	rnd := rand.New(rand.NewPCG(w.seed, 0))
	if w.pick(rnd) == nil {
		w.startOrchestrator()
	}
	began := time.Now()
	for {
		err := w.whole(rnd)
		if err == nil {
			w.tell("whole after %v", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > healLimit {
			w.fail(fmt.Errorf("not whole %v after the last fault: %w", healLimit, err))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// whole returns nil if the system is whole, and otherwise what is missing.
func (w *world) whole(rnd *rand.Rand) error {
	ctx := context.Background()
	o := w.pick(rnd)
	if err := o.loop.SetSlaves(ctx, firstSlaves); err != nil {
		return err
	}
	list, err := w.engine.List(ctx)
	if err != nil {
		return err
	}
	if len(list) != firstSlaves+1 {
		return fmt.Errorf("workers: got %+v, want %d and no dead ones", list, firstSlaves+1)
	}
	master, slaves := w.members()
	if master == nil || len(slaves) != firstSlaves {
		return fmt.Errorf("got %d slaves and the master %v, want %d and one", len(slaves), master != nil, firstSlaves)
	}
	status, err := o.loop.Status(ctx)
	if err != nil {
		return err
	}
	if len(status.Members) != firstSlaves+1 || slices.ContainsFunc(status.Members, func(m control.Member) bool { return !m.Ready }) {
		return fmt.Errorf("members: got %+v, want %d, all ready", status.Members, firstSlaves+1)
	}
	return w.equal(ctx, append(slaves, master))
}

// equal returns an error unless every replica equals persdb.
func (w *world) equal(ctx context.Context, nodes []*node) error {
	want, err := w.store.Hashes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		got, err := n.Hashes(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Status().ID, err)
		}
		if differ := workerapi.Differ(want, got); got.Seq != want.Seq || len(differ) > 0 {
			return fmt.Errorf("%s: got position %d and other tables %v, want persdb's at %d", n.Status().ID, got.Seq, differ, want.Seq)
		}
		if d := n.Status().Counters["diverged"]; d != 0 {
			w.fail(fmt.Errorf("%s has diverged %d times", n.Status().ID, d))
		}
	}
	return nil
}

// check checks what must hold at the end, whatever happened before. Its findings come before the wrong answers of calls: a
// verdict shows only the first few, and wrong answers may be many.
func (w *world) check() {
	if err := errors.Join(w.checkLog(), w.checkAccepted(), w.checkEffects(), w.checkViews(), w.checkMarks()); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrong = slices.Insert(w.wrong, 0, err)
	}
}

// acceptLimit is how long an accepted write may stay pending in a system that is whole.
const acceptLimit = time.Minute

// checkAccepted looks up the asynchronous writes: each must get a result, and must have its effect if the result says so.
func (w *world) checkAccepted() error {
	began := time.Now()
	for _, q := range w.accepted {
		result, err := w.store.Lookup(context.Background(), q.id)
		for err != nil && time.Since(began) < acceptLimit {
			time.Sleep(100 * time.Millisecond)
			result, err = w.store.Lookup(context.Background(), q.id)
		}
		switch {
		case err != nil:
			return fmt.Errorf("accepted write %s: %w", q.name, err)
		case failed(&result):
			w.ledger.Refused(q.name)
		default:
			w.ledger.Acked(q.name)
		}
	}
	return nil
}

// failed reports whether a stored result says that its operation had no effect.
func failed(r *dbaas.OperationResult) bool { return r.Statements[0].Code != dbaas.CodeOK }

// checkLog checks the whole log: its positions have no gap, its epochs never fall, and after a claimed epoch no entry has an
// older epoch (I3, I7).
func (w *world) checkLog() error {
	var last dbaas.Entry
	for {
		page, err := w.store.Log(context.Background(), last.Seq, 0)
		if err != nil {
			return fmt.Errorf("the log after %d: %w", last.Seq, err)
		}
		for _, e := range page.Entries {
			if e.Seq != last.Seq+1 || e.Epoch < last.Epoch {
				return fmt.Errorf("the log: got entry %d of epoch %d after entry %d of epoch %d", e.Seq, e.Epoch, last.Seq, last.Epoch)
			}
			for _, f := range w.fences {
				if e.Seq > f.after && e.Epoch < f.epoch {
					return fmt.Errorf("the log: got entry %d of epoch %d, though epoch %d was given out at %d", e.Seq, e.Epoch, f.epoch, f.after)
				}
			}
			last = e
		}
		if last.Seq == page.Head.Seq {
			return nil
		}
	}
}

// checkEffects compares persdb's tables with the answers that the clients got (I1, I2).
func (w *world) checkEffects() error {
	conn, err := sqlite.Open(filepath.Join(w.dir, "persdb", commitlog.FileName), sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a connection that only reads loses nothing if Close fails
	found, counter := map[string]int{}, 0
	if err := conn.Query("SELECT name FROM effects", func(r sqlite.Row) error {
		found[r.Text(0)]++
		return nil
	}); err != nil {
		return err
	}
	if err := conn.Query("SELECT v FROM registers WHERE k='counter'", func(r sqlite.Row) error {
		counter = int(r.Int(0))
		return nil
	}); err != nil {
		return err
	}
	return w.ledger.Compare(found, counter)
}

// checkViews compares what each read saw with the log: exactly the effects up to its position (I6).
func (w *world) checkViews() error {
	at := map[dbaas.Seq]int{} // number of effects by position of the log
	for _, id := range w.ids {
		result, err := w.store.Lookup(context.Background(), id)
		switch {
		case err == nil && failed(&result):
		case err == nil:
			at[result.Seq]++
		case dbaas.CodeOf(err) != dbaas.CodeNotFound:
			return err
		}
	}
	slices.SortFunc(w.views, func(a, b seen) int { return int(a.seq) - int(b.seq) })
	var wrong []error
	total, next := 0, dbaas.Seq(0)
	for _, v := range w.views {
		for ; next <= v.seq; next++ {
			total += at[next]
		}
		if v.count != total {
			wrong = append(wrong, fmt.Errorf("a read at %d saw %d effects, want %d, those of the log up to there", v.seq, v.count, total))
		}
	}
	return errors.Join(wrong...)
}
