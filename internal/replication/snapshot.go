package replication

import (
	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// Snapshot is a file with the application's tables and the position of a live file, all of one moment. It has nothing of
// the system's other tables. One goroutine may use a Snapshot at a time.
type Snapshot struct {
	*sqlite.Snapshot

	head dbaas.Head
}

// OpenSnapshot begins a snapshot of the live file at path. It uses a file at scratch, which must not exist, and removes
// it again. Errors are those of sqlite.OpenSnapshot and Position.
func OpenSnapshot(path, scratch string) (*Snapshot, error) {
	s := &Snapshot{}
	var err error
	s.Snapshot, err = sqlite.OpenSnapshot(path, scratch, sqlite.SnapshotOptions{
		Table: func(name string) bool { return !internal(name) || name == positionTable },
		Begun: func(c *sqlite.Conn) (err error) {
			s.head, err = Position(c)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Head returns the position of the snapshot.
func (s *Snapshot) Head() dbaas.Head { return s.head }
