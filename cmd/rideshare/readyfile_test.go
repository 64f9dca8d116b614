package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rideshare/system"
)

// A ready file that a killed process left is gone before the start that follows opens anything, even if another process has its pid
// by now, and even if that start fails.
func TestUp_ReadyFileOfAKilledProcess_RemovedAtStart(t *testing.T) {
	for _, old := range []string{
		fmt.Sprintf(`{"gateway":"http://127.0.0.1:1","pid":%d}`, os.Getppid()),
		fmt.Sprintf(`{"gateway":"http://127.0.0.1:1","pid":%d}`, os.Getpid()), // in a container, the pid is always 1
		"no JSON",
	} {
		file := filepath.Join(t.TempDir(), "ready.json")
		if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr lines
		code := run(t.Context(), []string{"up", "--data", t.TempDir(), "--gateway", busyAddress(t), "--ready-file", file}, &stdout, &stderr)
		if _, err := os.Stat(file); code != exitFailed || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got exit code %d and file %v, want %d and none", old, code, err, exitFailed)
		}
	}
}

// A running process keeps its ready file when another one starts with the same name, and removes only its own.
func TestReadyFile_OfARunningProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	write := func(gateway string) (remove func() error) {
		t.Helper()
		if err := removeStaleReadyFile(file); err != nil {
			t.Fatal(err)
		}
		remove, err := writeReadyFile(file, system.URLs{Gateway: gateway})
		if err != nil {
			t.Fatal(err)
		}
		return remove
	}
	removeFirst := write("first")
	if err := removeStaleReadyFile(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after another start: %v", err)
	}
	removeSecond := write("second")
	if err := removeFirst(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after the exit of the first process: %v", err)
	}
	if err := removeSecond(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the exit of the second process: got %v, want no file", err)
	}
	removeLost := write("third")
	if err := errors.Join(os.Remove(file), removeLost()); err != nil {
		t.Errorf("a file that is gone at the exit: %v", err)
	}
}
