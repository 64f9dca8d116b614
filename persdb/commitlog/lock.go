//go:build unix

package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rideshare/internal/dbaas"
)

// lockDir prevents a second process from using the directory: the index of known operations is in the memory of one
// process. The lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "persdb.lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the directory is the operator's choice.
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = errors.Join(dbaas.WrapError(dbaas.CodeConflict, "the data directory is in use by "+holder(f), err), f.Close())
		return nil, err
	}
	return f, nil
}

// holder names the process that holds the lock of f, as far as this machine shows it: Linux lists the locks with the
// pids of their holders, but not for a holder in another container.
func holder(f *os.File) string {
	var file unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(int(f.Fd()), &file) != nil {
		return "another process"
	}
	device := uint64(file.Dev) //nolint:unconvert // it is no uint64 everywhere.
	name := fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), file.Ino)
	for line := range strings.Lines(string(locks)) {
		if lock := strings.Fields(line); len(lock) > 5 && lock[1] == "FLOCK" && lock[5] == name && lock[4] != "0" {
			return "the process " + lock[4]
		}
	}
	return "another process"
}
