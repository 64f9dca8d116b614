package testenv

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// buildTimeout bounds one build, from an empty cache on a slow machine.
const buildTimeout = 10 * time.Minute

// RaceFlags returns the flags of tests and builds with the race detector, the same as RACE in the Makefile. A build with
// other flags compiles all dependencies again, including SQLite's translated C.
func RaceFlags() []string { return []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false"} }

// BuildBinary makes the delivered binary at target, as `make build` does. With the tag failpoint it has failpoints; see
// internal/failpoint.
//
// If RIDESHARE_RACED is set, it is built with RaceFlags instead.
func BuildBinary(target string, tags ...string) error {
	flags := []string{"-trimpath"}
	if os.Getenv("RIDESHARE_RACED") != "" {
		flags = RaceFlags()
	}
	return goBuild(target, append(flags, "-tags", strings.Join(tags, ","))...)
}

func goBuild(target string, flags ...string) error {
	_, err := goTool(slices.Concat([]string{"build", "-ldflags=-s -w", "-o", target}, flags, []string{program})...)
	return err
}

// goTool runs a command of go and returns its output. As for the delivered binary, cgo is off, unless the race detector
// needs it.
func goTool(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cgo := "CGO_ENABLED=0"
	if slices.Contains(args, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	out, err := Command(ctx, "", append(os.Environ(), cgo), "go", args...)
	return strings.TrimSpace(out), err
}

// NoteSources stats every source file of the module at root, because go test records
// which files a test looks at. Without that, go test would reuse the cached result of
// a passed run, although the binary that these tests build has changed.
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
