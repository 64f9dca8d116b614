// Package restore makes data folders of persdb from backups and from archives. DESIGN.md says what happens if the
// process dies in between.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/commitlog"
)

// ErrTarget is returned, wrapped, if the target exists and is not an empty folder. Nothing was changed.
var ErrTarget = errors.New("the folder must be missing or empty")

// Made describes a data folder that was made.
type Made struct {
	Cluster dbaas.ClusterID `json:"cluster_id"`
	Seq     dbaas.Seq       `json:"seq"`
	// At is the time of the entry Seq, Next the time of the entry after it in the archive; zero if there is none.
	At    time.Time   `json:"at,omitzero"`
	Next  time.Time   `json:"next_at,omitzero"`
	Epoch dbaas.Epoch `json:"epoch"` // the first epoch of the cluster is larger
	// Parent is the position that the database was restored from; nil if the backup does not name it.
	Parent *archive.Position `json:"parent,omitempty"`
	// Gap is the gap of the archive that begins after Seq; nil if there is none.
	Gap *archive.Range `json:"gap,omitempty"`
}

// build makes the data folder cfg.Dir from seed, with the schema and limits of cfg, and with the parent if that is not
// nil. cfg.Dir must be missing or empty. The folder appears whole or not at all: build works in a folder beside it,
// which it renames at the end.
func build(ctx context.Context, cfg commitlog.Config, seed commitlog.Seed, parent *archive.Position) (Made, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return Made{}, fmt.Errorf("path of the data folder: %w", err)
	}
	if err = vacate(dir); err != nil {
		return Made{}, err
	}
	work, release, err := workBeside(dir)
	if err != nil {
		return Made{}, err
	}
	defer release()
	cfg.Dir = work
	head, err := commitlog.Plant(ctx, cfg, seed)
	if err == nil && parent != nil {
		err = archive.WriteParent(work, *parent)
	}
	if err != nil {
		return Made{}, err
	}
	if err = publish(work, dir); err != nil {
		return Made{}, fmt.Errorf("publish the data folder: %w", err)
	}
	return Made{Cluster: head.Cluster, Seq: head.Seq, Epoch: head.Epoch, Parent: parent}, nil
}

// vacate removes an empty folder, and creates the folders above it if they are missing. It returns ErrTarget for
// anything else.
func vacate(dir string) error {
	err := syscall.Rmdir(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(filepath.Dir(dir), 0o750)
	}
	return fmt.Errorf("%s: %w (%w)", dir, ErrTarget, err)
}

// workBeside makes an empty work folder beside dir. release removes it, unless it was renamed. The name is always the
// same, so the next attempt removes what a dead process left. A lock keeps two attempts apart.
func workBeside(dir string) (work string, release func(), err error) {
	work = filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".restoring")
	if err = os.Mkdir(work, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", nil, err
	}
	lock, err := os.Open(work) //nolint:gosec // beside the folder that the user names.
	if err != nil {
		return "", nil, err
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("another restore works in %s: %w", work, err)
	} else {
		err = empty(work, lock)
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return work, func() {
		if sameFile(work, lock) {
			_ = os.RemoveAll(work) // if this fails, the next attempt removes the rest.
		}
		_ = lock.Close() // it was opened for reading.
	}, nil
}

// empty removes the content of the folder work, which lock has open.
func empty(work string, lock *os.File) error {
	if !sameFile(work, lock) {
		return fmt.Errorf("another restore has just ended in %s", work)
	}
	entries, err := os.ReadDir(work)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(work, e.Name())))
	}
	return err
}

// sameFile reports whether path is still the name of the open file.
func sameFile(path string, open *os.File) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := open.Stat()
	return err == nil && os.SameFile(named, opened)
}

// publish renames the work folder to dir, durably.
func publish(work, dir string) error {
	if err := commitlog.SyncFolder(work); err != nil {
		return err
	}
	if err := os.Rename(work, dir); err != nil {
		return err
	}
	return commitlog.SyncPath(filepath.Dir(dir))
}
