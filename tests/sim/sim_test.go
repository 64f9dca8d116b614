// Package sim_test runs the whole system in one process and in simulated time, and injects faults: real workers,
// control loops, dispatchers and SQLite files on the in-process bus, coordinator and launcher, in a bubble of
// testing/synctest. Each run has a seed, from which faults and clients draw. Each run ends with healing all faults,
// waiting until the system is whole, and checking the invariants.
package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/failpoint"
)

const (
	// seedEnv names the variable for the seed of a single run to repeat, with its whole log. runsEnv names the variable
	// for the number of runs.
	seedEnv = "RIDESHARE_SIM_SEED"
	runsEnv = "RIDESHARE_SIM_RUNS"
	// troubleFor is how long the faults go on in each run, in simulated time.
	troubleFor = 90 * time.Second
	clients    = 3
	// checkLimit bounds how long porcupine checks one run, in real time.
	checkLimit = 20 * time.Second
)

// TestMain breaks the promise that a test of these tests names, if the binary was built for that.
func TestMain(m *testing.M) {
	if err := failpoint.Serve(); err != nil {
		panic(err)
	}
	os.Exit(m.Run()) //nolint:forbidigo // TestMain is the main of this binary.
}

// Whatever fails, in whatever order, nothing acknowledged is lost or doubled, nothing refused
// is done, every read sees a prefix of the log, every call is answered in time, the history is
// linearizable, and after the last fault the system becomes whole by itself.
func TestSystem_RandomFaults_InvariantsHold(t *testing.T) {
	if one := os.Getenv(seedEnv); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
		runSeed(t, seed, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		return
	}
	first, n := uint64(time.Now().UnixNano()), runs(t)
	var all totals
	t.Cleanup(func() { all.report(t, n) })
	for i := range n {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			all.add(runSeed(t, first+uint64(i), slog.New(slog.DiscardHandler)))
		})
	}
}

func runs(t *testing.T) int {
	t.Helper()
	if s := os.Getenv(runsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", runsEnv, err)
		}
		return n
	}
	if testing.Short() {
		return 5
	}
	return 30
}

// runSeed makes one run and reports it.
func runSeed(t *testing.T, seed uint64, log *slog.Logger) *world {
	t.Helper()
	dir := testDir(t)
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, dir, log)
		w.play()
		w.end()
	})
	err := errors.Join(w.verdict(), w.linearizable())
	if err != nil {
		t.Errorf("seed %d: %v\nto repeat it: %s=%d go test ./tests/sim -run %s", seed, err, seedEnv, seed, "TestSystem_RandomFaults_InvariantsHold")
	}
	return w
}

// totals counts what happened in all runs.
type totals struct {
	acked, refused, unknown, reads, epochs, calls, held, audited, hits, resumed atomic.Int64
}

func (a *totals) add(w *world) {
	acked, refused, unknown := w.ledger.Counts()
	a.acked.Add(int64(acked))
	a.refused.Add(int64(refused))
	a.unknown.Add(int64(unknown))
	answered, _ := w.history.Len()
	a.calls.Add(int64(answered))
	a.reads.Add(int64(len(w.views)))
	a.epochs.Add(int64(len(w.fences)))
	a.held.Add(int64(w.held))
	a.audited.Add(w.audited)
	a.hits.Add(w.hits)
	a.resumed.Add(int64(w.resumed))
}

// enough is the number of runs after which everything must have happened.
const enough = 30

// report prints the totals. It fails the test if some outcome never happened: such runs prove nothing.
func (a *totals) report(t *testing.T, runs int) {
	t.Helper()
	t.Logf("%d runs: %d writes acknowledged, %d refused, %d unknown; %d reads; %d epochs; %d calls in the histories; %d starts held back; %d reads from caches, %d audited; %d streams of changes",
		runs, a.acked.Load(), a.refused.Load(), a.unknown.Load(), a.reads.Load(), a.epochs.Load(), a.calls.Load(), a.held.Load(), a.hits.Load(), a.audited.Load(), a.resumed.Load())
	if runs < enough || t.Failed() {
		return
	}
	if min(a.acked.Load(), a.refused.Load(), a.unknown.Load(), a.reads.Load(), a.epochs.Load()-int64(runs), a.calls.Load(), a.held.Load(), a.hits.Load(), a.audited.Load(), a.resumed.Load()) <= 0 {
		t.Error("some outcome never happened: the runs prove nothing")
	}
}

// play is one run: a start, trouble, healing, the invariants.
func (w *world) play() {
	w.createTables()
	endClients, endAny := w.startClients(clients), w.startAnyClient()
	endConsumers := w.startConsumers()
	ctx, cancel := context.WithTimeout(context.Background(), troubleFor)
	w.nemesis(ctx)
	cancel()
	w.heal()
	endClients()
	endAny()
	w.serves()
	w.heal() // the writes that were still in flight have reached all workers
	endConsumers()
	w.check()
}

// linearizable checks the history, in real time.
func (w *world) linearizable() error {
	return w.history.Verdict(checkLimit, fmt.Sprintf("rideshare-sim-%d-*.html", w.seed))
}

// testDir returns a directory, in memory if possible: the runs sync files often, and no run simulates a loss of power.
func testDir(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "rideshare-sim-") //nolint:usetesting // t.TempDir is on a disk.
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
