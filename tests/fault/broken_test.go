package fault_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/failpoint"
	"rideshare/internal/testkit/testenv"
)

// A check proves something only if it can fail: with each promise broken on purpose, the same clients and checks must
// fail, and name the broken promise.
func TestSystem_Broken_HistoryNotices(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		promise failpoint.Switch
		on      func(*testing.T) services
		attacks []attack
		notice  string
	}{
		{failpoint.NoEpochCheck, shared, []attack{{"claim an epoch in vain", claimInVain}}, "though epoch"},
		{failpoint.NoDeduplication, shared, []attack{{"let the master die before it acknowledges", killBeforeAck}}, "times"},
		{failpoint.AckBeforeCommit, shared, []attack{{"kill -9 the master, and persdb before it reads the write", killBusyMaster}}, "was acknowledged and is lost"},
	} {
		t.Run(string(broken.promise), func(t *testing.T) {
			t.Parallel()
			sys := startFailable(t, broken.on(t), 2, hanging, fmt.Sprintf("%s=%s=%s", failpoint.EnvArm, broken.promise, failpoint.TurnOn))
			h := startTrial(t, sys, nemesisSeed(t))
			struck := 0
			for lasts := brokenFor; struck < brokenStrikes; lasts = 0 {
				struck += harass(t, h, lasts, broken.attacks)[broken.attacks[0].name]
			}
			h.end()
			testenv.Eventually(t, healLimit, func() error { // a later master may repeat a write after the clients have ended
				if err := errors.Join(h.compare(t), h.fenced(t)); err == nil || !strings.Contains(err.Error(), broken.notice) {
					return fmt.Errorf("with %s: got %w, want a fault that says %q", broken.promise, err, broken.notice)
				}
				return nil
			})
		})
	}
}

// brokenFor is how long a broken system is attacked, and brokenStrikes how often at least.
const (
	brokenFor     = 8 * time.Second
	brokenStrikes = 3
)

// busyLimit bounds how long persdb stands still until the master answers a write.
const busyLimit = 5 * time.Second

// killBeforeAck makes the master die between its answer to a write and the acknowledgement of the message, so that the
// next master gets the write too.
func killBeforeAck(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	master := h.sys.pick("master")
	if master != 0 {
		h.sys.failpoints.Arm(t, master, failpoint.MasterAfterReply, failpoint.Kill)
	}
	return master != 0
}

// killBusyMaster kills the master when it has acknowledged a write while persdb stands still, and then persdb, so that persdb never reads
// what the master has sent.
func killBusyMaster(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	persdb, master := h.sys.part("persdb"), h.sys.pick("master")
	if master == 0 || !strikeProcess(persdb, syscall.SIGSTOP) {
		return false
	}
	before, _, _ := h.ledger.Counts()
	acked := before
	for began := time.Now(); acked == before && time.Since(began) < busyLimit; acked, _, _ = h.ledger.Counts() {
		outlast(t, 10*time.Millisecond)
	}
	if acked == before || !strikeProcess(master, syscall.SIGKILL) {
		strikeProcess(persdb, syscall.SIGCONT)
		return false
	}
	return strikeProcess(persdb, syscall.SIGKILL)
}
