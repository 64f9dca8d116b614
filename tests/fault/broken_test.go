package fault_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/failpoint"
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
			harass(t, h, brokenFor, broken.attacks)
			if err := h.verdict(t); err == nil || !strings.Contains(err.Error(), broken.notice) {
				t.Errorf("with %s: got %v, want a fault that says %q", broken.promise, err, broken.notice)
			}
		})
	}
}

// brokenFor is how long a broken system is attacked.
const brokenFor = 8 * time.Second

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

// killBusyMaster kills the master while it waits for persdb, and then persdb, so that persdb never reads what the master
// has sent.
func killBusyMaster(t *testing.T, h *trial, _ *rand.Rand) bool {
	t.Helper()
	persdb, master := h.sys.part("persdb"), h.sys.pick("master")
	strikeProcess(persdb, syscall.SIGSTOP)
	outlast(t, 300*time.Millisecond)
	struck := strikeProcess(master, syscall.SIGKILL)
	return strikeProcess(persdb, syscall.SIGKILL) && struck
}
