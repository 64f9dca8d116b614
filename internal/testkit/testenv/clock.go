package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ShiftEnv is the variable that says by how many seconds the clock of a process of BuildShiftable is ahead.
const ShiftEnv = "RIDESHARE_TEST_CLOCK_AHEAD"

// shiftSource is added to package time. It may not import packages that need time.
const shiftSource = `package time

import "syscall"

var clockAhead = func() (seconds int64) {
	text, _ := syscall.Getenv("` + ShiftEnv + `")
	sign := int64(1)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else {
			seconds = seconds*10 + int64(c-'0')
		}
	}
	return sign * seconds
}()
`

// readsClock is the line of time.Now that reads both clocks, and shiftsClock what it becomes.
const (
	readsClock  = "sec, nsec, mono := runtimeNow()\n"
	shiftsClock = readsClock + "\tsec += clockAhead\n"
)

// BuildShiftable is BuildBinary for a binary whose wall clock can be wrong; see ShiftEnv. Its monotonic clock, and so its
// timers, are those of the machine. The first build compiles everything again, the standard library included.
func BuildShiftable(target string) error {
	overlay, err := writeOverlay(target + ".clock")
	if err != nil {
		return fmt.Errorf("shifted clock: %w", err)
	}
	return goBuild(target, "-trimpath", "-overlay", overlay)
}

// writeOverlay writes a package time whose clock can be shifted into dir, and returns the file that tells go build of it.
func writeOverlay(dir string) (string, error) {
	std, err := goTool("list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return "", err
	}
	text, err := fs.ReadFile(os.DirFS(std), "time.go")
	if err != nil {
		return "", fmt.Errorf("source of time.Now: %w", err)
	}
	if !strings.Contains(string(text), readsClock) {
		return "", fmt.Errorf("time.Now of this Go does not have the line %q, which is to be changed", readsClock)
	}
	plan, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(std, "time.go"): filepath.Join(dir, "time.go"), filepath.Join(std, "ahead.go"): filepath.Join(dir, "ahead.go"),
	}})
	if err = errors.Join(err, os.Mkdir(dir, 0o700)); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return filepath.Join(dir, "overlay.json"), errors.Join(
		to.WriteFile("time.go", []byte(strings.ReplaceAll(string(text), readsClock, shiftsClock)), 0o600),
		to.WriteFile("ahead.go", []byte(shiftSource), 0o600), to.WriteFile("overlay.json", plan, 0o600), to.Close())
}
