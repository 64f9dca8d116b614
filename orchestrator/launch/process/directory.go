package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// workerPrefix begins the names of workers, and of their directories.
const workerPrefix = "w-"

// ErrInUse is returned by New and Claim for a directory that another launcher is using.
var ErrInUse = errors.New("directory is in use by another launcher")

// Claim creates the directory and locks out other launchers until the returned file is closed or this process ends. It
// deletes what the workers of an earlier launcher left there: their replicas are never reused. New claims its directory
// itself.
func Claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make directory of workers: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "launcher.lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the directory is the operator's choice
	if err != nil {
		return nil, fmt.Errorf("lock directory of workers: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w: %w", dir, ErrInUse, err), lock.Close())
	}
	if err = sweep(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("remove old directories of workers: %w", err), lock.Close())
	}
	return lock, nil
}

func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), workerPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
