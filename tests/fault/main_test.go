package fault_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// binaryDir is the directory in which the first test that needs the delivered binary builds it. TestMain makes and
// removes the directory.
var binaryDir string

func TestMain(m *testing.M) {
	os.Exit(runAll(m)) //nolint:forbidigo // TestMain is the main of this binary.
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rideshare-fault-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaryDir = dir
	races, err := testenv.CollectRaces(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		return 1
	}
	code := m.Run()
	if err = races(); err != nil {
		fmt.Fprintln(os.Stderr, "fault: the race detector found in the system's processes:", err)
		return 1
	}
	return code
}

// binary returns the path of the delivered binary. RIDESHARE_FAULT_BINARY names an existing binary to test instead,
// such as one that was built with -race.
var binary = sync.OnceValues(func() (string, error) {
	if ready := os.Getenv("RIDESHARE_FAULT_BINARY"); ready != "" {
		return ready, nil
	}
	return build("rideshare")
})

// failableBinary returns the path of a binary with failpoints.
var failableBinary = sync.OnceValues(func() (string, error) { return build("rideshare-failable", "failpoint") })

func build(name string, tags ...string) (string, error) {
	if err := testenv.NoteSources(filepath.Join("..", "..")); err != nil {
		return "", err
	}
	target := filepath.Join(binaryDir, name)
	if err := testenv.BuildBinary(target, tags...); err != nil {
		return "", err
	}
	return target, nil
}
