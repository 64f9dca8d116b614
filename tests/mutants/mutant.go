package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// guard is a test that must turn red. Without a test name, any test of the package must.
type guard struct{ pkg, test string }

func (g guard) String() string { return g.pkg + " " + g.test }

// mutant is one breakage: a patch with its guards in the head.
type mutant struct {
	name   string // the file's, without its extension
	patch  string // path of the file
	files  []string
	guards []guard
}

var (
	headLine = regexp.MustCompile(`(?m)^Red: (\./\S+) ?(Test\w+)?$`)
	diffLine = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
)

// load reads the mutants of a directory whose names match.
func load(dir string, match *regexp.Regexp) ([]mutant, error) {
	patches, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		if !match.MatchString(name) {
			continue
		}
		m := mutant{name: name, patch: patch}
		text, err := os.ReadFile(patch) //nolint:gosec // a patch of this repository.
		if err != nil {
			return nil, err
		}
		for _, line := range headLine.FindAllStringSubmatch(string(text), -1) {
			m.guards = append(m.guards, guard{pkg: line[1], test: line[2]})
		}
		for _, line := range diffLine.FindAllStringSubmatch(string(text), -1) {
			m.files = append(m.files, line[1])
		}
		if len(m.guards) == 0 || len(m.files) == 0 {
			return nil, fmt.Errorf("%s: no line 'Red: ./package TestName', or no diff", patch)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no patch with a name like %q", dir, match)
	}
	return all, nil
}

// apply patches copies of the files of the tree at root, in dir, and returns the file for go's -overlay.
func (m mutant) apply(ctx context.Context, root, dir string) (overlay string, _ error) {
	replace := map[string]string{}
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file that the patch names.
		if err != nil {
			return "", err
		}
		mutated := filepath.Join(dir, file)
		replace[filepath.Join(root, file)] = mutated
		if err = errors.Join(os.MkdirAll(filepath.Dir(mutated), 0o700), os.WriteFile(mutated, text, 0o600)); err != nil { //nolint:gosec // below the temporary directory.
			return "", err
		}
	}
	patch, err := filepath.Abs(m.patch)
	if err != nil {
		return "", err
	}
	git := exec.CommandContext(ctx, "git", "apply", patch) // #nosec G204 -- a patch of this repository
	git.Dir, git.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, failed := git.CombinedOutput(); failed != nil {
		return "", fmt.Errorf("%s does not apply: %w: %s", m.patch, failed, bytes.TrimSpace(out))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

const (
	// testTimeout is when a test that hangs counts as red.
	testTimeout = "3m"
	// shown is how many bytes of a test's output an error has.
	shown = 2000
)

// run runs the test in the tree at root; with an overlay, what the test builds has it too. It returns an error
// unless the test passed, and errNoBuild if there is nothing to run.
func (g guard) run(ctx context.Context, root, overlay string) error {
	args := []string{"test", "-vet=off", "-failfast", "-timeout", testTimeout}
	if overlay != "" {
		args = append(args, "-count=1") // the cache knows what a test imports, but not what it builds
	}
	if g.test != "" {
		args = append(args, "-run", "^"+g.test+"$")
	}
	out, err := goCommand(ctx, root, overlay, append(args, g.pkg)...)
	if err != nil && (bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]"))) {
		return fmt.Errorf("%w: %.*s", errNoBuild, shown, out)
	}
	if err != nil {
		return fmt.Errorf("%w: %.*s", err, shown, out)
	}
	return nil
}

// compile returns errNoBuild unless the commands compile with the overlay: the tests that build them would turn red for nothing.
func compile(ctx context.Context, root, overlay string) error {
	if out, err := goCommand(ctx, root, overlay, "list", "-export", "./cmd/..."); err != nil { // build would link too
		return fmt.Errorf("%w: %.*s", errNoBuild, shown, out)
	}
	return nil
}

// goCommand runs go in the tree at root, with an overlay unless that is empty, and returns its output.
func goCommand(ctx context.Context, root, overlay string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- on this repository
	cmd.Dir, cmd.Env = root, os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	return cmd.CombinedOutput()
}

var errNoBuild = errors.New("does not build")
