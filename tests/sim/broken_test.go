//go:build failpoint

package sim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"rideshare/internal/failpoint"
)

// The runs prove something only if they can fail: with each promise broken on purpose some run must fail, and name the
// broken promise.
func TestSystem_Broken_InvariantsNotice(t *testing.T) {
	for _, broken := range []struct {
		promise failpoint.Switch
		notice  string
	}{
		{failpoint.NoEpochCheck, "though epoch"},
		{failpoint.NoDeduplication, "times"},
		{failpoint.NoDeduplication, "gave different answers"},
		{failpoint.AckBeforeCommit, "was acknowledged"},
		{failpoint.NoPositionWait, "want at least"},
		{failpoint.NoReadPosition, "not linearizable"},
	} {
		t.Run(string(broken.promise), func(t *testing.T) {
			var err error
			var out []byte
			for range batches {
				if out, err = runsWith(t, broken.promise); noticed(out, err, broken.notice) {
					return
				}
			}
			t.Errorf("%d runs with %s: got %v, want a failure that says %q:\n%.3000s", batches*batchRuns, broken.promise, err, broken.notice, out)
		})
	}
}

// Batches of runs are made until a run fails: most promises are needed in every few runs, some rarely. The read position matters only
// when the answer of a commit was lost, so about one run of 60 notices that it is broken.
const (
	batches   = 100
	batchRuns = 8
)

// runsWith makes one batch of runs with a broken promise.
func runsWith(t *testing.T, promise failpoint.Switch) ([]byte, error) {
	t.Helper()
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSystem_RandomFaults_InvariantsHold$")
	self.Env = append(os.Environ(), fmt.Sprintf("%s=%s=%s", failpoint.EnvArm, promise, failpoint.TurnOn),
		fmt.Sprintf("%s=%d", runsEnv, batchRuns), "TMPDIR="+t.TempDir())
	return self.CombinedOutput()
}

func noticed(out []byte, err error, notice string) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && strings.Contains(string(out), "seed ") && strings.Contains(string(out), notice)
}
