package fault_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binaryDir is where the delivered binary is built, once, by the first test that
// needs it. TestMain makes and removes it.
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
	return m.Run()
}

// binary returns the path of the delivered binary. RIDESHARE_FAULT_BINARY names
// one to test instead of building it, such as one made with -race.
var binary = sync.OnceValues(func() (string, error) {
	if err := noteSources(); err != nil {
		return "", err
	}
	if ready := os.Getenv("RIDESHARE_FAULT_BINARY"); ready != "" {
		return ready, nil
	}
	target := filepath.Join(binaryDir, "rideshare")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", target, "rideshare/cmd/rideshare")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return target, nil
})

// noteSources looks at every source file of the module. go test notes what tests look at
// while they run: otherwise it would take a passed run for good, from its
// cache, although the binary that these tests build has changed.
func noteSources() error {
	root := filepath.Join("..", "..")
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".mod", ".csv", ".html", ".sh":
			_, err = os.Stat(path)
		}
		return err
	})
}
