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

// The runs are worth what they notice: with each promise broken on purpose some of them
// must fail, and for the reason that the broken promise is.
func TestSystem_Broken_InvariantsNotice(t *testing.T) {
	for _, broken := range []struct {
		promise failpoint.Switch
		notice  string
	}{
		{failpoint.NoEpochCheck, "though epoch"},
		{failpoint.NoDeduplication, "times"},
		{failpoint.AckBeforeCommit, "was acknowledged"},
		{failpoint.NoPositionWait, "want at least"},
		{failpoint.NoReadPosition, "not linearizable"},
	} {
		t.Run(string(broken.promise), func(t *testing.T) {
			self := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSystem_RandomFaults_InvariantsHold$")
			self.Env = append(os.Environ(), fmt.Sprintf("%s=%s=%s", failpoint.EnvArm, broken.promise, failpoint.TurnOn), runsEnv+"=40", "TMPDIR="+t.TempDir())
			out, err := self.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "seed ") || !strings.Contains(string(out), broken.notice) {
				t.Errorf("runs with %s: got %v, want a failure that says %q:\n%.3000s", broken.promise, err, broken.notice, out)
			}
		})
	}
}
