package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// made is the content of the lock file once a database was created in its directory. If a process dies while it creates
// the first database, the lock file stays empty, and the next start creates the database again.
const made = "a database was made here\n"

// checkOrigin returns an error instead of treating a missing, empty or foreign file as a new database. Otherwise an
// operator who mistypes a directory, or restores half a backup, would be served an empty system. checkOrigin changes
// nothing.
func (s *Store) checkOrigin() error {
	lock, err := s.lock.Stat()
	if err != nil {
		return err
	}
	file, err := os.Stat(s.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before := lock.Size() > 0
	if err != nil || file.Size() == 0 {
		return refuseIf(before, "%s is missing or empty, but persdb.lock says that a database was made here: "+
			"put a backup of the file there, or remove persdb.lock to start with an empty database", s.path())
	}
	_, noJournal := os.Stat(s.path() + "-journal") // it exists if a process died while it created the first database.
	c, err := sqlite.Open(s.path(), sqlite.Options{ReadOnly: true, Undo: noJournal == nil})
	if err != nil {
		return damaged(err)
	}
	objects, own := 0, false
	err = c.Query("SELECT name FROM sqlite_schema", func(r sqlite.Row) error {
		objects++
		own = own || r.Text(0) == "rs_applied"
		return nil
	})
	if err = errors.Join(err, c.Close()); err != nil {
		return damaged(err)
	}
	return refuseIf(!own && (before || objects > 0), "%s is not a database that persdb made: "+
		"put a backup of persdb's own file there, or give another directory", s.path())
}

// damaged adds the next step for the operator to an error of an unreadable file.
func damaged(err error) error { return fmt.Errorf("%w; put a backup of the file in its place", err) }

func refuseIf(wrong bool, format string, args ...any) error {
	if wrong {
		return dbaas.Errorf(dbaas.CodeInternal, format, args...)
	}
	return nil
}

// create creates the tables and opens the log in one transaction, so that a process that dies in between leaves an
// empty file rather than half a schema.
func (s *Store) create() error {
	if err := s.conn.BeginWrite(); err != nil {
		return err
	}
	defer func() { _ = s.conn.End() }() // no effect after Commit.
	tables, err := replication.Tables(s.conn)
	if err != nil {
		return err
	}
	if err = replication.CreatePosition(s.conn); err != nil {
		return err
	}
	position, err := replication.Position(s.conn)
	if err != nil {
		return err
	}
	if len(tables) == 0 && position.Seq == 0 { // an empty schema at a later position was made by clients.
		for _, sql := range s.cfg.Schema {
			if err = s.conn.Exec(sql); err != nil {
				return fmt.Errorf("create schema: %w", err)
			}
		}
	}
	if err = s.conn.Commit(); err != nil {
		return err
	}
	if s.readers, err = OpenReaders(s.path(), readerCount); err != nil {
		return err
	}
	if err = s.conn.BeginWrite(); err != nil {
		return err
	}
	if s.log, err = s.cfg.OpenLog(s.conn, s.readers); err != nil {
		return err
	}
	if err = s.capture.KeepSums(); err != nil {
		return err
	}
	if err = s.keepCluster(); err != nil {
		return fmt.Errorf("cluster id: %w", err)
	}
	return s.conn.Commit()
}

// keepCluster reads the cluster id, and creates it in a file that has none yet.
func (s *Store) keepCluster() error {
	err := s.conn.Exec("CREATE TABLE IF NOT EXISTS rs_cluster(one INTEGER PRIMARY KEY CHECK(one=1), id TEXT NOT NULL) STRICT")
	if err == nil {
		err = s.conn.Exec("INSERT OR IGNORE INTO rs_cluster(one, id) VALUES(1, ?)", dbaas.Text(dbaas.NewClusterID().String()))
	}
	if err != nil {
		return err
	}
	return s.conn.Query("SELECT id FROM rs_cluster", func(r sqlite.Row) error { return s.cluster.UnmarshalText([]byte(r.Text(0))) })
}

// markMade records that the database was created.
func (s *Store) markMade() error {
	lock, err := s.lock.Stat()
	if err != nil || lock.Size() > 0 {
		return err
	}
	_, err = s.lock.WriteString(made)
	return errors.Join(err, s.cfg.files.sync(s.lock.Name()))
}
