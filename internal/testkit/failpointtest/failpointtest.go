// Package failpointtest arms failpoints in the processes of a test. They run a binary
// built with the tag failpoint.
package failpointtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/failpoint"
	"rideshare/internal/testkit/testenv"
)

// patience bounds the wait for a process to listen, and to reach a point.
const patience = 30 * time.Second

// Dir is where the processes of a test listen for requests.
type Dir string

// NewDir makes a directory for this test. Its path is short, since the path of a socket must be short.
func NewDir(tb testing.TB) Dir {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fp") //nolint:usetesting // the test's own has a path that is too long for sockets
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return Dir(dir)
}

// Env returns the environment setting of the processes. An empty Dir has no effect.
func (d Dir) Env() string { return failpoint.EnvDir + "=" + string(d) }

// Arm arms a point in one process, as soon as that process listens. A process that is to be killed at the point may die
// before it has answered; its disappearance counts as the answer.
func (d Dir) Arm(tb testing.TB, pid int, p failpoint.Point, a failpoint.Action) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		_, err := d.send(tb.Context(), pid, http.MethodPut, string(p), string(a))
		if a == failpoint.Kill && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return nil
		}
		return err
	})
}

// Disarm releases everything that waits at a point.
func (d Dir) Disarm(tb testing.TB, pid int, p failpoint.Point) {
	tb.Helper()
	d.eventually(tb, pid, http.MethodDelete, string(p), "")
}

// State returns the state of a point in a process.
func (d Dir) State(tb testing.TB, pid int, p failpoint.Point) failpoint.State {
	tb.Helper()
	var s failpoint.State
	if err := json.Unmarshal(d.eventually(tb, pid, http.MethodGet, string(p), ""), &s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// AwaitHit waits until the point has been reached since it was armed.
func (d Dir) AwaitHit(tb testing.TB, pid int, p failpoint.Point) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		if s := d.State(tb, pid, p); s.Hits == 0 {
			return fmt.Errorf("%s of process %d: got %+v, want a hit", p, pid, s)
		}
		return nil
	})
}

// AwaitPaused waits until a goroutine is paused at a point.
func (d Dir) AwaitPaused(tb testing.TB, pid int, p failpoint.Point) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		if s := d.State(tb, pid, p); s.Waiting == 0 {
			return fmt.Errorf("%s of process %d: got %+v, want somebody waiting", p, pid, s)
		}
		return nil
	})
}

// eventually sends a request and retries as long as the process does not listen yet.
func (d Dir) eventually(tb testing.TB, pid int, method, name, body string) []byte {
	tb.Helper()
	var answer []byte
	testenv.Eventually(tb, patience, func() error {
		var err error
		answer, err = d.send(tb.Context(), pid, method, name, body)
		return err
	})
	return answer
}

func (d Dir) send(ctx context.Context, pid int, method, name, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return failpoint.Request(ctx, failpoint.Socket(string(d), pid), method, name, body)
}
