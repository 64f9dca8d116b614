package fault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/client"
)

const (
	// nemesisEnv names the variable for the seed, which repeats the faults of a run.
	nemesisEnv = "RIDESHARE_FAULT_SEED"
	// nemesisFor is how long the faults go on.
	nemesisFor = 60 * time.Second
)

// nemesisSeed is the seed to use, from the environment or a new one.
func nemesisSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv(nemesisEnv)
	if s == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", nemesisEnv, err)
	}
	return seed
}

// attack is one fault. It returns when the fault is over, though its consequences may not be, and reports whether it had a
// target: there may be none at the moment.
type attack struct {
	name string
	do   func(t *testing.T, h *trial, rnd *rand.Rand) (struck bool)
}

var attacks = []attack{
	{"kill -9 the master", killMaster},
	{"kill -9 a slave", killSlave},
	{"crash/master", crashMaster},
	{"stop the master", stopMaster},
	{"stop a slave", stopSlave},
	{"stop persdb", stopPersdb},
	{"kill -9 persdb", killPersdb},
	{"close the broker's connections", closeConnections},
	{"claim an epoch in vain", claimInVain},
	{"hand the role over", handOverInTrouble},
}

func killMaster(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	return strikeProcess(h.sys.pick("master"), syscall.SIGKILL)
}

func killSlave(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	return strikeProcess(h.sys.pick("slave"), syscall.SIGKILL)
}

func killPersdb(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	return strikeProcess(h.sys.part("persdb"), syscall.SIGKILL)
}

func stopMaster(t *testing.T, h *trial, rnd *rand.Rand) bool {
	t.Helper()
	return freeze(t, h.sys.pick("master"), rnd, 9*time.Second)
}

func stopSlave(t *testing.T, h *trial, rnd *rand.Rand) bool {
	t.Helper()
	return freeze(t, h.sys.pick("slave"), rnd, 9*time.Second)
}

func stopPersdb(t *testing.T, h *trial, rnd *rand.Rand) bool {
	t.Helper()
	return freeze(t, h.sys.part("persdb"), rnd, 4*time.Second)
}

// harass attacks the system, one fault after the other, for lasts, and returns how often each fault struck. All kinds come
// once before any kind comes again, and a fault without a target is tried again.
func harass(t *testing.T, h *trial, lasts time.Duration, what []attack) map[string]int {
	t.Helper()
	rnd, struck := rand.New(rand.NewPCG(h.seed, 99)), map[string]int{}
	var turn []int
	began := time.Now()
	for time.Since(began) < lasts || len(struck) < len(what) { // the time limit of the test ends the loop if a fault never strikes
		if len(turn) == 0 {
			turn = rnd.Perm(len(what))
		}
		a := what[turn[0]]
		t.Logf("%6.2f s: %s", time.Since(began).Seconds(), a.name)
		if a.do(t, h, rnd) {
			struck[a.name]++
			turn = turn[1:]
		}
		outlast(t, 200*time.Millisecond+time.Duration(rnd.Int64N(int64(4*time.Second))))
	}
	return struck
}

// pick returns the pid of a worker with that role, 0 if there is none at the moment.
func (s *system) pick(role string) int {
	c, err := get[cluster](s, "/api/v1/cluster")
	if pids := c.pids(role); err == nil && len(pids) > 0 {
		return pids[0]
	}
	return 0
}

// part returns the pid of the process of one of the system's parts, 0 if it is not there.
func (s *system) part(name string) int {
	for _, pid := range s.processes() {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && slices.Contains(strings.Split(string(args), "\x00"), name) {
			return pid
		}
	}
	return 0
}

// strikeProcess sends a signal to a process, and reports whether it was there.
func strikeProcess(pid int, sig syscall.Signal) bool {
	return pid > 0 && syscall.Kill(pid, sig) == nil
}

// freeze stops a process for a random time. The orchestrator may kill the process in that time.
func freeze(t *testing.T, pid int, rnd *rand.Rand, most time.Duration) bool {
	t.Helper()
	if !strikeProcess(pid, syscall.SIGSTOP) {
		return false
	}
	outlast(t, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(most))))
	strikeProcess(pid, syscall.SIGCONT)
	return true
}

func crashMaster(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	a, err := h.sys.try(t.Context(), http.MethodPost, "/api/v1/crash/master", nil)
	if err != nil || a.status >= 500 && a.status != http.StatusServiceUnavailable {
		h.fail(fmt.Errorf("crash/master: got %d %.200s, %w", a.status, a.body, err))
	}
	return a.status == http.StatusOK
}

// handOverInTrouble asks for another master. The handover may fail: there may be no master, no slave that can follow, or no
// answer in time.
func handOverInTrouble(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	a, err := h.sys.try(t.Context(), http.MethodPost, "/api/v1/master", struct{}{})
	if err != nil || !slices.Contains([]int{http.StatusOK, http.StatusConflict, http.StatusServiceUnavailable}, a.status) {
		h.fail(fmt.Errorf("POST master: got %d %.200s, %w, want 200, 409 or 503", a.status, a.body, err))
	}
	return a.status == http.StatusOK
}

func closeConnections(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	h.sys.rabbit.Ctl(t, "close_all_connections", "fault test")
	return true
}

// claimInVain acts as an orchestrator that dies after it has claimed an epoch and before it has given the epoch to a worker:
// the present master can no longer commit.
func claimInVain(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	store, err := h.sys.store()
	if err != nil {
		return false // no worker runs whose command line has the address
	}
	defer func() { _ = store.Close() }()
	epoch, err := store.Claim(ctx)
	if err != nil {
		return false // persdb is away
	}
	head, err := store.Head(ctx)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fences = append(h.fences, fence{uint64(epoch), uint64(head.Seq)})
	return true
}

// store returns a client of the system's persdb, whose address is on the workers' command lines.
func (s *system) store() (*client.Client, error) {
	for _, pid := range s.processes() {
		if url, err := settingOf(pid, "--persdb-url"); err == nil {
			return client.New(client.Config{URL: url})
		}
	}
	return nil, fmt.Errorf("no worker of %s runs", s.id)
}

// fenced checks the log: its positions have no gap, its epochs never fall, and after a claimed epoch no entry has an older
// epoch.
func (h *trial) fenced(t *testing.T) error {
	t.Helper()
	var last dbaas.Entry
	for {
		page := h.sys.page(t, last.Seq)
		for _, e := range page.Entries {
			if e.Seq != last.Seq+1 || e.Epoch < last.Epoch {
				return fmt.Errorf("the log: got entry %d of epoch %d after entry %d of epoch %d", e.Seq, e.Epoch, last.Seq, last.Epoch)
			}
			for _, f := range h.fences {
				if uint64(e.Seq) > f.after && uint64(e.Epoch) < f.epoch {
					return fmt.Errorf("the log: got entry %d of epoch %d, though epoch %d was given out at %d", e.Seq, e.Epoch, f.epoch, f.after)
				}
			}
			last = e
		}
		if last.Seq >= page.Head.Seq {
			return nil
		}
	}
}

// page reads a page of persdb's log.
func (s *system) page(t *testing.T, after dbaas.Seq) dbaas.Page {
	t.Helper()
	var page dbaas.Page
	testenv.Eventually(t, healLimit, func() error {
		store, err := s.store()
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		page, err = store.Log(t.Context(), after, 0)
		return err
	})
	return page
}

// wantTrouble fails the test unless every kind of fault has struck and masters have changed: otherwise the history proves
// nothing. Whether calls fail depends on chance: writes wait for the next master, and for persdb, until their deadline.
func (h *trial) wantTrouble(t *testing.T, struck map[string]int, before, after uint64) {
	t.Helper()
	_, refused, unknown := h.ledger.Counts()
	t.Logf("struck: %v; epochs %d to %d; %d writes refused, %d of unknown outcome", struck, before, after, refused, unknown)
	for _, a := range attacks {
		if struck[a.name] == 0 {
			t.Errorf("%q never struck", a.name)
		}
	}
	if claims := uint64(len(h.fences)); after <= before+claims {
		t.Errorf("epochs: got %d after %d and %d claims in vain, want those of new masters too", after, before, claims)
	}
}

// Under random faults the history of every register and set is linearizable. No acknowledged write is lost or doubled, no
// refused write is executed, and no master commits after a newer epoch was claimed.
func TestSystem_RandomFaults_HistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	seed := nemesisSeed(t)
	t.Logf("seed %d (run again with %s)", seed, nemesisEnv)
	sys := startSystem(t, startServices(t), 2, hanging)
	h := startTrial(t, sys, seed)
	before := sys.awaitWhole(t, 2)
	struck := harass(t, h, nemesisFor, attacks)
	h.wantTrouble(t, struck, before.Epoch, sys.awaitWhole(t, 2).Epoch)
	if err := h.verdict(t); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if err := h.recorder.WantReads(100 / historyClients); err != nil {
		t.Error(err)
	}
	sys.checkReplicas(t, 2)
	sys.stop(t)
	sys.checkLog(t)
}
