package commitlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// Seed is the content from which Plant creates a data folder. Tables is required.
type Seed struct {
	// Tables is a database file: a snapshot, or a file without a position, as Backup returns it.
	Tables io.Reader
	// Foreign means that another program may have made the file. Plant then checks the file first. Unless the file is
	// empty, it must contain everything that Config.Protected names.
	Foreign bool
	// After is the position before the first of Entries. Epoch is at least the epoch of every entry; epochs claimed
	// later are newer than Epoch.
	After dbaas.Seq
	Epoch dbaas.Epoch
	// Entries, if set, calls add for each initial entry of the log, in order and without a gap.
	Entries func(add func(Record) error) error
}

// Plant creates a database with a new cluster id in cfg.Dir, an empty folder, and brings its tables up to the end of
// the log. It returns the position, with the new id. The database then behaves as if the entries had been committed
// there.
//
// After an error, or if the process dies, the folder must be discarded. Nothing is durable until the caller has
// synced the files (SyncFolder). CodeInvalid means that Seed.Tables cannot be used.
func Plant(ctx context.Context, cfg Config, seed Seed) (dbaas.Head, error) {
	cluster := dbaas.NewClusterID()
	path := filepath.Join(cfg.Dir, FileName)
	err := writeForeign(path, seed.Tables)
	if err == nil && seed.Foreign {
		err = checkFile(ctx, path, cfg)
	}
	if err == nil {
		err = plantTables(path, cluster)
	}
	if err == nil {
		err = plantLog(ctx, filepath.Join(cfg.Dir, LogFileName), cluster, seed)
	}
	if err != nil {
		return dbaas.Head{}, err
	}
	cfg.TrimEvery = -1
	s, err := Open(ctx, cfg)
	if err != nil {
		return dbaas.Head{}, err
	}
	head, err := s.Head(ctx)
	return head, errors.Join(err, s.Close())
}

// checkFile returns CodeInvalid if the file cannot become the tables of a database.
func checkFile(ctx context.Context, path string, cfg Config) error {
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Scan: true, Limits: cfg.Limits})
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "the file is damaged, or no database", err)
	}
	err = c.Within(ctx, func() error {
		if bad := replication.CheckForeign(c); bad != nil {
			return bad
		}
		return checkForm(c, cfg.Protected)
	})
	return errors.Join(err, c.Close())
}

// checkForm returns CodeInvalid unless a sound file has the page size, encoding and tables that a database needs, and
// nothing that clients cannot make.
func checkForm(c *sqlite.Conn, protected []string) error {
	for pragma, want := range map[string]string{"page_size": fmt.Sprint(sqlite.PageSize), "encoding": "UTF-8"} {
		err := c.Query("PRAGMA "+pragma, func(r sqlite.Row) error {
			if got := r.Text(0); got != want {
				return dbaas.Errorf(dbaas.CodeInvalid, "the file's %s is %s; only %s can be restored", pragma, got, want)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var names []string
	err := c.Query("SELECT name FROM sqlite_schema", func(r sqlite.Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	if err != nil || len(names) == 0 {
		return err
	}
	if slices.Contains(names, "rs_applied") {
		return dbaas.Errorf(dbaas.CodeInvalid, "the file is %s of a data folder: copy the whole folder instead, with %s", FileName, LogFileName)
	}
	for _, name := range protected {
		if !slices.Contains(names, name) {
			return dbaas.Errorf(dbaas.CodeInvalid, "the file has no %s, which the application needs: it is no backup of this system", name)
		}
	}
	return replication.CheckForeignSchema(c, protected)
}

// plantTables gives the file its identity, and its position if it has none.
func plantTables(path string, cluster dbaas.ClusterID) error {
	c, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	err = errors.Join(c.BeginWrite(), replication.CreatePosition(c))
	if err == nil {
		_, err = keepCluster(c, cluster)
	}
	if err == nil {
		err = c.Exec("UPDATE rs_cluster SET id=?", dbaas.Text(cluster.String()))
	}
	if err == nil {
		err = c.Commit()
	}
	return errors.Join(err, c.Close())
}

// plantLog makes the log.
func plantLog(ctx context.Context, path string, cluster dbaas.ClusterID, seed Seed) error {
	l, err := OpenFileLog(path, cluster)
	if err != nil {
		return err
	}
	// One transaction: a half-made log is never visible, and SQLite spills what does not fit in memory into the WAL.
	err = l.alone(ctx, func() error {
		failed := l.writer.Exec("UPDATE rs_epoch SET cur=?", integer(seed.Epoch))
		if failed == nil {
			failed = l.writer.Exec("UPDATE rs_bounds SET trimmed=?", integer(seed.After))
		}
		if failed != nil || seed.Entries == nil {
			return failed
		}
		next := seed.After + 1
		return seed.Entries(func(r Record) error {
			if e := &r.Entry; e.Seq != next || e.Epoch > seed.Epoch {
				return dbaas.Errorf(dbaas.CodeInternal, "entry %d of epoch %d, where entry %d of at most epoch %d is wanted", e.Seq, e.Epoch, next, seed.Epoch)
			}
			next++
			return l.plant(&r)
		})
	})
	return errors.Join(err, l.Close())
}

// plant writes an entry as insert does, but without comparing its seq and epoch.
func (l *FileLog) plant(r *Record) error {
	return l.writer.Exec("INSERT INTO rs_log(seq, epoch, at, sum, ops, changes) VALUES(?,?,?,?,?,?)", columns(r)...)
}

// SyncFolder makes the files of a closed database, and their names, durable.
func SyncFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err = SyncPath(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return SyncPath(dir)
}
