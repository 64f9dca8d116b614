package commitlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/sqlite"
)

// splitChunk is how many entries are copied in one transaction.
const splitChunk = 256

// split moves the log of an older version, which is stored in persdb.db, into its own file. It copies the log to a file
// with another name, makes that durable, renames it to LogFileName, and then drops the old tables. LogFileName is
// complete as soon as it exists, so the next start can continue after a death at any step.
func (s *Store) split(ctx context.Context) (err error) {
	copied := s.logPath() + ".new"
	for _, path := range []string{copied, copied + "-wal", copied + "-shm", copied + "-journal"} {
		if err = removed(path); err != nil {
			return err
		}
	}
	file, err := inspect(s.path(), false)
	if err != nil || !file.tables["rs_log"] {
		return err
	}
	c, err := sqlite.Open(s.path(), sqlite.Options{Durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err = s.moveLog(c, copied); err != nil {
		return err
	}
	if err = dropLog(c); err != nil {
		return err
	}
	s.cfg.Log.InfoContext(ctx, "log moved into its own file", logkey.Path, s.logPath())
	return os.RemoveAll(filepath.Join(s.cfg.Dir, "snapshots")) // an older version used it.
}

// moveLog creates LogFileName from the log in persdb.db, unless an earlier start has done so.
func (s *Store) moveLog(c *sqlite.Conn, copied string) error {
	log, err := inspect(s.logPath(), false)
	if err != nil {
		return err
	}
	if log.tables != nil {
		return s.checkMoved(c)
	}
	if err = copyLog(c, copied); err != nil {
		return err
	}
	return s.replaceBy(copied, s.logPath())
}

// checkMoved returns an error if the log in persdb.db has entries that LogFileName lacks: an older version used the
// folder after the split.
func (s *Store) checkMoved(c *sqlite.Conn) error {
	old, err := bounds(c)
	if err != nil {
		return err
	}
	l, err := sqlite.Open(s.logPath(), sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	moved, err := bounds(l)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	if old.Head.Seq > moved.Head.Seq {
		return dbaas.Errorf(dbaas.CodeInternal, "an older version wrote entries up to %d into %s, and %s ends at %d: move %s away to go on with the older version's log",
			old.Head.Seq, FileName, LogFileName, moved.Head.Seq, LogFileName)
	}
	return nil
}

// copyLog copies the log's tables from a file into a new file at path.
func copyLog(from *sqlite.Conn, path string) (err error) {
	if err = addSum(from); err != nil {
		return err
	}
	to, err := sqlite.Open(path, sqlite.Options{}) // the caller syncs it.
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err = to.BeginWrite(); err == nil {
		err = createLog(to)
	}
	for _, column := range [][2]string{{"rs_epoch", "cur"}, {"rs_bounds", "trimmed"}} {
		if err == nil {
			err = from.Query("SELECT "+column[1]+" FROM "+column[0], func(r sqlite.Row) error {
				return to.Exec("UPDATE "+column[0]+" SET "+column[1]+"=?", dbaas.Integer(r.Int(0)))
			})
		}
	}
	if err == nil {
		err = to.Commit()
	}
	for after, more := int64(0), true; err == nil && more; {
		after, more, err = copyEntries(from, to, after)
	}
	return err
}

// copyEntries copies a chunk of the entries after seq, and returns the last seq copied and whether there may be more.
func copyEntries(from, to *sqlite.Conn, seq int64) (last int64, more bool, err error) {
	if err = to.BeginWrite(); err != nil {
		return seq, false, err
	}
	err = from.Query("SELECT seq, epoch, at, sum, ops, changes FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?", func(r sqlite.Row) error {
		seq, more = r.Int(0), true
		return to.Exec("INSERT INTO rs_log(seq, epoch, at, sum, ops, changes) VALUES(?,?,?,?,?,?)",
			r.Value(0), r.Value(1), r.Value(2), r.Value(3), r.Value(4), r.Value(5))
	}, dbaas.Integer(seq), dbaas.Integer(splitChunk))
	if err == nil {
		err = to.Commit()
	}
	return seq, more, err
}

// addSum adds the checksum column to the log of a still older version, whose entries have no checksum.
func addSum(c *sqlite.Conn) error {
	missing := true
	err := c.Query("SELECT name='sum' FROM pragma_table_info('rs_log')", func(r sqlite.Row) error {
		missing = missing && r.Int(0) == 0
		return nil
	})
	if err != nil || !missing {
		return err
	}
	return c.Exec("ALTER TABLE rs_log ADD COLUMN sum INTEGER")
}

// dropLog drops the log's tables in one transaction.
func dropLog(c *sqlite.Conn) error {
	if err := c.BeginWrite(); err != nil {
		return err
	}
	for _, table := range []string{"rs_log", "rs_epoch", "rs_bounds"} {
		if err := c.ExecOnce("DROP TABLE IF EXISTS " + table); err != nil {
			return errors.Join(fmt.Errorf("drop %s: %w", table, err), c.End())
		}
	}
	return c.Commit()
}
