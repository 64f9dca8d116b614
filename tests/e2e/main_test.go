// Package e2e tests the delivered system from outside: it runs the binary as a process, uses HTTP and signals, and
// reads its files after it has ended.
//
// The tests run against `rideshare up` with its defaults. They run against another bus, coordinator or launcher with
//
//	RIDESHARE_E2E_FLAGS="--bus amqp://... --coordinator zk://.../{id} --launcher process" go test ./tests/e2e
//
// where {id} is replaced by a different name for each system, and against a system that already runs with
// RIDESHARE_E2E_READY, see givenEnv. RIDESHARE_E2E_BINARY names a binary to test instead of a newly built one, such as
// one built with -race. Every write is an fsync: if the disk is slow, set TMPDIR to a memory file system.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"rideshare/internal/testkit/doctest"
	"rideshare/internal/testkit/testenv"
)

// suite is what all tests of a run share. TestMain fills it before the first test, except for the shared system, which
// is started once, when it is first needed.
var suite struct {
	dir    string // removed at the end
	binary string
	// documents are the OpenAPI documents by service.
	documents map[string]*doctest.Document

	mu     sync.Mutex // guards shared
	shared *system
}

func TestMain(m *testing.M) {
	os.Exit(runSuite(m)) //nolint:forbidigo // TestMain is the main of this binary.
}

// runSuite builds the binary, runs the tests and ends the shared system.
func runSuite(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rideshare-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	suite.dir, suite.binary = dir, filepath.Join(dir, "rideshare")
	if suite.documents, err = readDocuments(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	if ready := os.Getenv("RIDESHARE_E2E_BINARY"); ready != "" {
		suite.binary = ready
	} else if err = testenv.BuildBinary(suite.binary); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	races, err := testenv.CollectRaces(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code := m.Run()
	tellLeftOut()
	if err = exchanges.Problem(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	if err = endShared(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the shared system:", err)
		return 1
	}
	if err = races(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the race detector found in the system's processes:", err)
		return 1
	}
	return code
}

// noteSources ties the cached result of a run to the sources of the binary, once.
var noteSources = sync.OnceValue(func() error { return testenv.NoteSources(filepath.Join("..", "..")) })

// shared returns the system of the tests that need no system of their own. These tests use names and areas that no
// other test uses, never clear the database and never crash a worker. The system's number of slaves does not follow the
// load.
func shared(t *testing.T) *system {
	t.Helper()
	if sys, err := given(); err != nil || sys != nil {
		if err != nil {
			t.Fatal(err)
		}
		return sys
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.shared == nil {
		suite.shared = newSystem(filepath.Join(suite.dir, "shared"), setup{env: []string{"SCALE_PERIOD=1h", "CALL_TIMEOUT=20s"}})
	}
	sys := suite.shared
	if sys.proc == nil {
		if err := sys.launch(); err != nil {
			suite.shared = nil
			t.Fatalf("start the shared system: %v", err)
		}
	}
	t.Cleanup(func() { sys.showLog(t) })
	return sys
}

func endShared() error {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.shared == nil {
		return nil
	}
	return suite.shared.stop()
}
