package invariants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// comparison is the state of comparing one worker's replica.
type comparison struct {
	WorkerReport

	control string
	// seen has its hashes by the position at which they were read.
	seen map[dbaas.Seq]dbaas.TableHashes
	done bool
	err  error // of the last request
}

// replicas compares every running worker's tables with persdb's at an equal position.
func (c *Checker) replicas(ctx context.Context, who census) ([]Invariant, []WorkerReport) {
	pending := make([]*comparison, len(who.running))
	for i, in := range who.running {
		m, _ := who.member(in.ID)
		pending[i] = &comparison{
			WorkerReport: WorkerReport{PID: in.PID, Worker: in.ID, Role: m.Role},
			control:      in.Control, seen: map[dbaas.Seq]dbaas.TableHashes{},
		}
	}
	all := slices.Clone(pending)
	truth := map[dbaas.Seq]dbaas.TableHashes{}
	var persdb error
	c.await(ctx, func() bool {
		persdb = c.look(ctx, truth, pending)
		pending = slices.DeleteFunc(pending, func(r *comparison) bool { return r.compare(truth) })
		return len(pending) == 0
	})
	var rest sync.WaitGroup
	for _, r := range all {
		rest.Go(func() { c.finish(ctx, r) })
	}
	rest.Wait()
	if len(truth) == 0 && persdb != nil {
		unknown := "persdb: " + reason(persdb)
		return []Invariant{{Name: RowsIntact, Detail: unknown}, {Name: ReplicasEqual, Detail: unknown}}, reports(all)
	}
	all = c.stillRunning(ctx, all)
	return []Invariant{judgeRows(truth), judgeReplicas(all)}, reports(all)
}

// judgeRows looks for tables whose rows are not the ones that persdb committed. Comparing replicas cannot show that:
// their snapshot may come from the damaged file.
func judgeRows(truth map[dbaas.Seq]dbaas.TableHashes) Invariant {
	damaged := map[string]bool{}
	for _, h := range truth {
		for _, table := range h.Damaged {
			damaged[table] = true
		}
	}
	if len(damaged) == 0 {
		return Invariant{Name: RowsIntact, OK: true, Detail: "every row is as it was committed"}
	}
	return Invariant{Name: RowsIntact, Detail: "persdb's file is damaged: rows changed on the disk in " +
		strings.Join(slices.Sorted(maps.Keys(damaged)), ", ") + "; restore a backup"}
}

// look asks persdb and the workers not compared yet for their hashes, all concurrently: the closer together, the
// likelier they are at one position.
func (c *Checker) look(ctx context.Context, truth map[dbaas.Seq]dbaas.TableHashes, pending []*comparison) error {
	var asked sync.WaitGroup
	for _, r := range pending {
		asked.Go(func() {
			var h dbaas.TableHashes
			if h, r.err = c.cfg.Workers.Hashes(ctx, r.control); r.err == nil {
				r.seen[h.Seq] = h
			}
		})
	}
	h, err := c.cfg.Store.Hashes(ctx)
	asked.Wait()
	if err == nil {
		truth[h.Seq] = h
	}
	return err
}

// compare reports whether the worker was seen at a position of persdb's, and records which tables differ there.
func (r *comparison) compare(truth map[dbaas.Seq]dbaas.TableHashes) bool {
	for seq, mine := range r.seen {
		if want, ok := truth[seq]; ok {
			r.Seq, r.Differ, r.done = seq, workerapi.Differ(want, mine), true
			return true
		}
	}
	return false
}

// finish makes a worker whose replica differs verify the replica, and so rebuild it. If writes kept a worker from being
// compared here, finish makes the worker compare itself: it can hold its own position during the comparison.
func (c *Checker) finish(ctx context.Context, r *comparison) {
	if r.done && len(r.Differ) == 0 {
		return
	}
	compared, differ := r.done, r.Differ
	v, err := c.cfg.Workers.Verify(ctx, r.control)
	if !compared {
		if err != nil {
			r.err = err
			r.Problem = "not compared: " + reason(err)
			return
		}
		if r.Seq, r.Differ, r.done = v.Seq, v.Differ, true; len(v.Differ) == 0 {
			return
		}
		differ = v.Differ
	}
	what := fmt.Sprintf("%s at %d", differs(differ), r.Seq)
	switch {
	case err != nil:
		r.Problem = what + "; its worker does not answer: " + reason(err)
	case len(v.Differ) > 0:
		r.Problem = what + "; it now starts again from a snapshot"
	default:
		r.Problem = what + "; it has started again from a snapshot by itself"
	}
	c.cfg.Log.ErrorContext(ctx, "replica differs", logkey.Worker, string(r.Worker), logkey.PID, r.PID, logkey.Seq, r.Seq, logkey.Reason, r.Problem)
}

func differs(tables []string) string {
	if len(tables) == 1 {
		return "table " + tables[0] + " differs"
	}
	return "tables " + strings.Join(tables, ", ") + " differ"
}

// stillRunning drops the workers that could not be compared because they ended after the census: that is not a fault of
// a replica.
func (c *Checker) stillRunning(ctx context.Context, all []*comparison) []*comparison {
	if !slices.ContainsFunc(all, func(r *comparison) bool { return !r.done }) {
		return all
	}
	instances, err := c.cfg.Launcher.List(ctx)
	if err != nil {
		return all
	}
	running := map[dbaas.WorkerID]bool{}
	for _, in := range instances {
		running[in.ID] = in.Running
	}
	return slices.DeleteFunc(all, func(r *comparison) bool { return !r.done && !running[r.Worker] })
}

func judgeReplicas(all []*comparison) Invariant {
	if len(all) == 0 {
		return Invariant{Name: ReplicasEqual, Detail: "there is no replica to compare"}
	}
	var wrong []string
	for _, r := range all {
		if r.Problem != "" {
			wrong = append(wrong, who(r.Worker, r.PID)+": "+r.Problem)
		}
	}
	return judged(ReplicasEqual, fmt.Sprintf("%d workers equal persdb", len(all)), wrong)
}

func reports(all []*comparison) []WorkerReport {
	out := make([]WorkerReport, 0, len(all))
	for _, r := range all {
		out = append(out, r.WorkerReport)
	}
	return out
}
