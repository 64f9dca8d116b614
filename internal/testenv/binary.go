package testenv

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildTimeout bounds one build, from an empty cache on a slow machine.
const buildTimeout = 5 * time.Minute

// BuildBinary makes the delivered binary at target, as `make build` does, without
// stripping it. With the tag failpoint it has failpoints; see internal/failpoint.
//
// With RIDESHARE_RACED the binary has the race detector, but for SQLite's translated C code: that would be ten times as slow, and each
// connection is used by one goroutine at a time.
func BuildBinary(target string, tags ...string) error {
	flags := []string{"-tags", strings.Join(tags, ",")}
	if os.Getenv("RIDESHARE_RACED") != "" {
		flags = append(flags, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false")
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	args := append([]string{"build", "-trimpath", "-o", target}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "rideshare/cmd/rideshare")...) //nolint:gosec // a test's own target.
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// NoteSources looks at every source file of the module at root. go test notes what
// tests look at while they run: otherwise it would take a passed run for good, from
// its cache, although the binary that these tests build has changed.
func NoteSources(root string) error {
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
