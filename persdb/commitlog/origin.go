package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// made is what the lock file holds once a database was made in its directory. A process that dies while it makes the first
// one leaves it empty, and the next start makes the database again.
const made = "a database was made here\n"

// checkOrigin refuses to take a file that is missing, empty or somebody else's for a new database: whoever mistypes a
// directory, or restores half a backup, would be served an empty system. Nothing is changed.
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
	_, noJournal := os.Stat(s.path() + "-journal") // there is one if a process died while it made the first database.
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

// damaged adds the next step to an error of a file that cannot be read.
func damaged(err error) error { return fmt.Errorf("%w; put a backup of the file in its place", err) }

func refuseIf(wrong bool, format string, args ...any) error {
	if wrong {
		return dbaas.Errorf(dbaas.CodeInternal, format, args...)
	}
	return nil
}

// create makes the tables and opens the log, in one transaction, so that a death
// on the way leaves an empty file and not half a schema.
func (s *Store) create() error {
	if err := s.conn.BeginWrite(); err != nil {
		return err
	}
	defer func() { _ = s.conn.End() }() // after Commit it does nothing.
	tables, err := s.conn.Tables()
	if err != nil {
		return err
	}
	if err = s.conn.CreatePosition(); err != nil {
		return err
	}
	position, err := s.conn.Position()
	if err != nil {
		return err
	}
	if len(tables) == 0 && position.Seq == 0 { // later an empty schema is what clients made of it.
		for _, sql := range application {
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

// keepCluster reads the cluster id, and makes it in a file that has none yet.
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

// markMade remembers that the database was made.
func (s *Store) markMade() error {
	lock, err := s.lock.Stat()
	if err != nil || lock.Size() > 0 {
		return err
	}
	_, err = s.lock.WriteString(made)
	return errors.Join(err, s.cfg.files.sync(s.lock.Name()))
}
