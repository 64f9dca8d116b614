package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// made is the content of the lock file once a database was created in its directory. If a process dies while it creates
// the first database, the lock file stays empty, and the next start creates the database again.
const made = "a database was made here\n"

// checkOrigin returns an error instead of treating a missing, empty or foreign file as a new database. Otherwise an
// operator who mistypes a directory, or restores half a backup, would get an empty system. checkOrigin changes nothing.
func (s *Store) checkOrigin() error {
	lock, err := s.lock.Stat()
	if err != nil {
		return err
	}
	before := lock.Size() > 0
	file, err := inspect(s.path(), before)
	if err != nil {
		return err
	}
	if err = file.refuse("rs_applied"); err != nil || s.cfg.OpenLog != nil {
		return err
	}
	log, err := inspect(s.logPath(), before && !file.tables["rs_log"]) // an older version had the log among the tables.
	if err != nil {
		return err
	}
	return log.refuse("rs_log")
}

// origin is what is known of a database file before it is opened for writing.
type origin struct {
	path   string
	before bool            // the file was created by an earlier start
	tables map[string]bool // all objects by name; nil if the file is missing or empty
}

func inspect(path string, before bool) (origin, error) {
	o := origin{path: path, before: before}
	file, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && file.Size() == 0 {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	_, noJournal := os.Stat(path + "-journal") // the journal exists if a process died while it created the database.
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Undo: noJournal == nil})
	if err != nil {
		return o, damaged(err)
	}
	o.tables = map[string]bool{}
	err = c.Query("SELECT name FROM sqlite_schema", func(r sqlite.Row) error {
		o.tables[r.Text(0)] = true
		return nil
	})
	if err = errors.Join(err, c.Close()); err != nil {
		return o, damaged(err)
	}
	return o, nil
}

// refuse returns an error if the file must not be used: it was created by an earlier start and is missing, or it lacks
// the table own, which every file made by persdb has.
func (o *origin) refuse(own string) error {
	switch {
	case o.tables == nil && o.before:
		return dbaas.Errorf(dbaas.CodeInternal, "%s is missing or empty, but persdb.lock says that a database was made here: "+
			"put a backup of both %s and %s there, or remove all three to start with an empty database", o.path, FileName, LogFileName)
	case o.tables != nil && !o.tables[own] && (o.before || len(o.tables) > 0):
		return dbaas.Errorf(dbaas.CodeInternal, "%s is not a database that persdb made: "+
			"put a backup of persdb's own file there, or give another directory", o.path)
	}
	return nil
}

// damaged adds the next step for the operator to an error of an unreadable file.
func damaged(err error) error {
	return fmt.Errorf("%w; put a backup of both %s and %s in their place", err, FileName, LogFileName)
}

// create creates the tables in one transaction, so that a process that dies in between leaves an empty file rather than
// half a schema, and makes them durable.
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
	if err = s.capture.KeepSums(); err != nil {
		return err
	}
	if s.cluster, err = keepCluster(s.conn, dbaas.NewClusterID()); err != nil {
		return err
	}
	if err = s.conn.Commit(); err != nil {
		return err
	}
	if err = errors.Join(s.syncTables(), s.cfg.files.sync(s.cfg.Dir)); err != nil {
		return err
	}
	s.readers, err = OpenReaders(s.path(), readerCount)
	return err
}

// keepCluster returns the cluster id in a file, and stores id in a file that has none yet.
func keepCluster(c *sqlite.Conn, id dbaas.ClusterID) (dbaas.ClusterID, error) {
	err := c.Exec("CREATE TABLE IF NOT EXISTS rs_cluster(one INTEGER PRIMARY KEY CHECK(one=1), id TEXT NOT NULL) STRICT")
	if err == nil {
		err = c.Exec("INSERT OR IGNORE INTO rs_cluster(one, id) VALUES(1, ?)", dbaas.Text(id.String()))
	}
	if err == nil {
		id, err = clusterIn(c)
	}
	if err != nil {
		return id, fmt.Errorf("cluster id: %w", err)
	}
	return id, nil
}

// clusterIn returns the cluster id in a file that has one.
func clusterIn(c *sqlite.Conn) (id dbaas.ClusterID, err error) {
	err = c.Query("SELECT id FROM rs_cluster", func(r sqlite.Row) error { return id.UnmarshalText([]byte(r.Text(0))) })
	return id, err
}

// ClusterOf returns the cluster id of a data folder that no process uses; zero if the folder is of a version that had no
// ids. It changes no file, and returns CodeInvalid unless tables and log are there.
func ClusterOf(dir string) (id dbaas.ClusterID, err error) {
	tables, err := inspect(filepath.Join(dir, FileName), false)
	if err != nil {
		return id, err
	}
	log := tables
	if !tables.tables["rs_log"] { // an older version had the log among the tables.
		if log, err = inspect(filepath.Join(dir, LogFileName), false); err != nil {
			return id, err
		}
	}
	if !tables.tables["rs_applied"] || !log.tables["rs_log"] {
		return id, dbaas.Errorf(dbaas.CodeInvalid, "a data folder has %s and %s, both made by persdb", FileName, LogFileName)
	}
	if !tables.tables["rs_cluster"] {
		return id, nil
	}
	c, err := sqlite.Open(tables.path, sqlite.Options{ReadOnly: true})
	if err != nil {
		return id, err
	}
	id, err = clusterIn(c)
	return id, errors.Join(err, c.Close())
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
