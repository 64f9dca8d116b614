package commitlog

import (
	"errors"
	"os"
	"path/filepath"

	"rideshare/internal/logkey"
)

// files holds the file operations by which the store makes data durable outside the engine's own files. Tests replace
// it by a disk that loses power.
type files struct {
	sync   func(path string) error
	rename func(from, to string) error
}

// SyncPath makes a file, or the entries of a directory, durable.
func SyncPath(path string) error {
	f, err := os.Open(path) //nolint:gosec // the store's own file.
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *Store) path() string { return filepath.Join(s.cfg.Dir, FileName) }

func (s *Store) logPath() string { return filepath.Join(s.cfg.Dir, LogFileName) }

// openLog opens the log. A dead process may have left an append in the log's WAL that was not synced: it is made durable
// before it becomes visible to any client.
func (s *Store) openLog() (err error) {
	if s.cfg.OpenLog != nil {
		l, failed := s.cfg.OpenLog(s.cluster)
		if other, ok := errors.AsType[*OtherClusterError](failed); ok && s.fresh() {
			s.cfg.Log.Warn("the empty data folder joins the cluster of the log", logkey.Cluster, other.Log)
			if failed = s.joinCluster(other.Log); failed == nil {
				l, failed = s.cfg.OpenLog(s.cluster)
			}
		}
		if failed == nil {
			s.log = l
		}
		return failed
	}
	l, err := OpenFileLog(s.logPath(), s.cluster)
	if err != nil {
		return err
	}
	s.log = l
	return errors.Join(s.cfg.files.sync(s.logPath()+"-wal"), s.cfg.files.sync(s.cfg.Dir))
}

// syncTables makes the tables durable up to their present position.
func (s *Store) syncTables() error {
	if err := s.cfg.files.sync(s.path() + "-wal"); err != nil {
		return err
	}
	s.synced = s.applied
	return nil
}
