package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// Snapshot is a consistent copy of a live file at one moment, with its position. One goroutine may use a Snapshot at a
// time.
type Snapshot struct {
	*sqlite.Snapshot

	head dbaas.Head
}

// OpenSnapshot begins a snapshot of the live file at path. It returns the errors of sqlite.OpenSnapshot and Position.
func OpenSnapshot(path string) (*Snapshot, error) {
	s := &Snapshot{}
	var err error
	s.Snapshot, err = sqlite.OpenSnapshot(path, func(c *sqlite.Conn) (err error) {
		s.head, err = Position(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Head returns the position of the snapshot.
func (s *Snapshot) Head() dbaas.Head { return s.head }

// DropOwn removes from an installed snapshot the tables that only persdb needs: all of the system's own tables except
// the position.
func DropOwn(c *sqlite.Conn) error { return DropInternal(c, positionTable) }

// DropInternal removes the system's own tables from a copy of the database, except those named.
func DropInternal(c *sqlite.Conn, except ...string) error {
	names, err := internalNames(c)
	if err != nil {
		return err
	}
	if err = c.BeginWrite(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if slices.Contains(except, name) {
			continue
		}
		if err = c.ChangeSchema("DROP TABLE IF EXISTS " + QuoteName(name)); err != nil {
			return errors.Join(fmt.Errorf("drop %s: %w", name, err), c.End())
		}
	}
	return c.Commit()
}
