package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// A given system is a system that already runs. RIDESHARE_E2E_READY names a file in the form of the ready file of `up`,
// with its addresses. All tests share that system: tests that want a system of their own get it with an empty database.
// Tests that need other settings, or that end the system or read its files (setup.owned), are left out, and named at
// the end of the run.
const givenEnv = "RIDESHARE_E2E_READY"

// left has the tests that did not run because the system is given.
var left struct {
	mu    sync.Mutex // guards names
	names []string
}

// given returns the given system, or nil.
var given = sync.OnceValues(func() (*system, error) {
	file := os.Getenv(givenEnv)
	if file == "" {
		return nil, nil //nolint:nilnil // none is a good answer.
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", givenEnv, err)
	}
	sys := newSystem("", setup{})
	if err = json.Unmarshal(text, &sys.ready); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", givenEnv, file, err)
	}
	sys.given = true
	return sys, nil
})

// onGiven returns the given system for a test that wants a system as s says: with an empty database, counters at zero,
// and all workers serving. It returns nil if there is none.
func onGiven(t *testing.T, s setup) *system {
	t.Helper()
	sys, err := given()
	if err != nil {
		t.Fatal(err)
	}
	if sys == nil {
		return nil
	}
	if s.owned || len(s.env)+len(s.flags) > 0 {
		leaveOut(t)
	}
	sys.AwaitService(t)
	sys.Post(t, sys.db("/api/v1/db/clear"), "").expect(t, http.StatusOK, "{}")
	for _, base := range []string{sys.Users, sys.Rides} {
		sys.Call(t, "DELETE", base+"/api/v1/_count", "").expect(t, http.StatusOK, "{}")
	}
	return sys
}

// leaveOut ends a test that cannot run on the given system.
func leaveOut(t *testing.T) {
	t.Helper()
	left.mu.Lock()
	left.names = append(left.names, t.Name())
	left.mu.Unlock()
	t.Skip("LEFT OUT: it needs a system of its own, and the one of " + givenEnv + " is given")
}

// tellLeftOut prints the names of the tests that were left out.
func tellLeftOut() {
	left.mu.Lock()
	defer left.mu.Unlock()
	if len(left.names) > 0 {
		fmt.Fprintf(os.Stderr, "e2e: %d tests need a system of their own and were left out: %s\n", len(left.names), strings.Join(left.names, ", "))
	}
}
