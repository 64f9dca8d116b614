//go:build unix

package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"rideshare/internal/dbaas"
)

// lockDir prevents a second process from using the directory: the index of known operations is in the memory of one
// process. The lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "persdb.lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the directory is the operator's choice.
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(dbaas.WrapError(dbaas.CodeConflict, "the data directory is in use by another process", err), f.Close())
		return nil, err
	}
	return f, nil
}
