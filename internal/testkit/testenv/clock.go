package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// program is the package of the binary.
const program = "rideshare/cmd/rideshare"

// readsClock is the line of time.Now that reads both clocks, and shiftsClock what it becomes. Every other line stays where it is.
const (
	readsClock  = "sec, nsec, mono := runtimeNow()\n"
	shiftsClock = "sec, nsec, mono := runtimeNow(); sec += %d\n"
)

// BuildShifted builds the binary at target with a wall clock that is ahead by seconds, or behind if they are negative. Its
// monotonic clock, and so its timers, are those of the machine. Two binaries in one folder need different names.
//
// Only package time is compiled again, and linked with all other packages as they are: go build would compile each of them again,
// the standard library included. The linker accepts the package, since its exported declarations are the same.
func BuildShifted(target string, seconds int) error {
	dir := target + ".clock"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("shifted clock: %w", err)
	}
	shifted, err := compileTime(dir, seconds)
	if err != nil {
		return fmt.Errorf("shifted clock: %w", err)
	}
	list, err := goTool("list", "-trimpath", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", program)
	if err != nil {
		return err
	}
	var packages strings.Builder
	var main string
	for line := range strings.Lines(list) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "time":
			file = shifted
		case program:
			main = file
		}
		if file != "" { // package unsafe has none
			fmt.Fprintf(&packages, "packagefile %s=%s\n", name, file)
		}
	}
	files := filepath.Join(dir, "packages")
	if err = os.WriteFile(files, []byte(packages.String()), 0o600); err != nil {
		return fmt.Errorf("shifted clock: %w", err)
	}
	_, err = goTool("tool", "link", "-s", "-w", "-importcfg", files, "-o", target, "-buildmode=exe", main)
	return err
}

// compileTime compiles package time with a shifted clock, and returns the file.
func compileTime(dir string, seconds int) (file string, err error) {
	std, err := goTool("list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return "", err
	}
	source := filepath.Join(std, "time.go")
	text, err := os.ReadFile(source) //nolint:gosec // a file of Go's own
	if err != nil {
		return "", fmt.Errorf("source of time.Now: %w", err)
	}
	if !strings.Contains(string(text), readsClock) {
		return "", fmt.Errorf("time.Now of this Go does not have the line %q, which is to be changed", readsClock)
	}
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	shifted := strings.ReplaceAll(string(text), readsClock, fmt.Sprintf(shiftsClock, seconds))
	if err = os.WriteFile(changed, []byte(shifted), 0o600); err != nil { //nolint:gosec // a file of this test
		return "", err
	}
	if err = os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, source, changed), 0o600); err != nil {
		return "", err
	}
	return goTool("list", "-trimpath", "-export", "-overlay", overlay, "-f", "{{.Export}}", "time")
}
