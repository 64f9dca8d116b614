package commitlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/sqlite"
)

// LogFileName is the log's file inside the data directory.
const LogFileName = "log.db"

// FileLog is a Log in an SQLite file of its own. Each Claim, Append and Trim is one transaction with one fsync.
type FileLog struct {
	stepping sync.Mutex   // held by each transaction of writer
	writer   *sqlite.Conn // used by Claim, Append and Trim, and by Head after a step whose outcome is unknown
	readers  *Readers
	full     bool // the last step found no room on the disk; guarded by stepping, as is closed
	closed   bool
	unknown  atomic.Bool // a COMMIT has failed, and no transaction was committed since
}

// logTables creates the log's tables. A row of rs_log is one entry: ops and changes are frames, at is in milliseconds
// since 1970, and sum is sumOf of all other columns. rs_bounds stores the seq up to which the log was trimmed.
var logTables = [...]string{
	`CREATE TABLE IF NOT EXISTS rs_epoch(one INTEGER PRIMARY KEY CHECK(one=1), cur INTEGER NOT NULL) STRICT`,
	`INSERT OR IGNORE INTO rs_epoch(one, cur) VALUES(1, 0)`,
	`CREATE TABLE IF NOT EXISTS rs_bounds(one INTEGER PRIMARY KEY CHECK(one=1), trimmed INTEGER NOT NULL) STRICT`,
	`INSERT OR IGNORE INTO rs_bounds(one, trimmed) SELECT 1, 0 WHERE NOT EXISTS(SELECT 1 FROM rs_bounds)`,
	`CREATE TABLE IF NOT EXISTS rs_log(seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, at INTEGER NOT NULL,
		sum INTEGER, ops BLOB NOT NULL, changes BLOB NOT NULL) STRICT`,
}

// OpenFileLog opens the log of a cluster in the file at path, or creates it. It returns CodeInternal if the file is
// damaged or holds the log of another cluster. The caller closes the log.
func OpenFileLog(path string, cluster dbaas.ClusterID) (*FileLog, error) {
	c, err := sqlite.Open(path, sqlite.Options{Durable: true})
	if err != nil {
		return nil, damaged(err)
	}
	l := &FileLog{writer: c}
	if err = c.QuickCheck(); err != nil {
		err = damaged(err)
	} else if err = l.create(cluster); err == nil {
		l.readers, err = OpenReaders(path, readerCount)
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// create creates missing tables, and returns an error if the log belongs to another cluster. An empty log of another
// cluster gets this cluster's id: the process that created it died before persdb.db was durable.
func (l *FileLog) create(cluster dbaas.ClusterID) error {
	c := l.writer
	if err := c.BeginWrite(); err != nil {
		return err
	}
	defer func() { _ = c.End() }() // no effect after Commit.
	if err := createLog(c); err != nil {
		return err
	}
	id, err := keepCluster(c, cluster)
	if err != nil {
		return err
	}
	if id != cluster {
		b, err := bounds(c)
		if err != nil {
			return err
		}
		if b != (Bounds{}) {
			return dbaas.Errorf(dbaas.CodeInternal, "%s is the log of cluster %s, and %s is of cluster %s: put both files of one backup there",
				LogFileName, id, FileName, cluster)
		}
		if err = c.Exec("UPDATE rs_cluster SET id=?", dbaas.Text(cluster.String())); err != nil {
			return err
		}
	}
	return c.Commit()
}

// createLog creates the log's tables, where they are missing, in the open transaction.
func createLog(c *sqlite.Conn) error {
	for _, sql := range logTables {
		if err := c.Exec(sql); err != nil {
			return fmt.Errorf("create log: %w", err)
		}
	}
	return nil
}

// Close implements Log.
func (l *FileLog) Close() error {
	var err error
	if l.readers != nil {
		err = l.readers.Close()
	}
	l.stepping.Lock() // Head may be in a step
	defer l.stepping.Unlock()
	l.closed = true
	return errors.Join(err, l.writer.Close())
}

// Claim implements Log.
func (l *FileLog) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var epoch dbaas.Epoch
	err := l.alone(ctx, func() error {
		return l.writer.Query("UPDATE rs_epoch SET cur=cur+1 WHERE one=1 RETURNING cur", func(r sqlite.Row) error {
			epoch = dbaas.Epoch(r.Int(0))
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("claim epoch: %w", err)
	}
	return epoch, nil
}

// alone runs fn in a transaction of its own. If COMMIT fails and the transaction is gone, alone returns CodeUnknown,
// unless the disk is full.
func (l *FileLog) alone(ctx context.Context, fn func() error) (err error) {
	l.stepping.Lock()
	defer l.stepping.Unlock()
	defer func() {
		l.full = dbaas.CodeOf(err) == dbaas.CodeFull
		if err == nil || dbaas.CodeOf(err) == dbaas.CodeUnknown {
			l.unknown.Store(err != nil)
		}
	}()
	if l.closed {
		return dbaas.Errorf(dbaas.CodeUnavailable, "the log is closed")
	}
	if l.full {
		l.writer.CheckpointPassive() // the file may have room for the contents of the WAL now.
	}
	err = l.writer.Within(ctx, func() error {
		if begun := l.writer.BeginWrite(); begun != nil {
			return begun
		}
		return fn()
	})
	if err == nil {
		err = l.commit()
	}
	if end := l.writer.End(); end != nil {
		return dbaas.WrapError(dbaas.CodeUnknown, "the database could not undo a step", errors.Join(err, end))
	}
	return err
}

func (l *FileLog) commit() error {
	err := l.writer.Commit()
	if err == nil || l.writer.InTransaction() || dbaas.CodeOf(err) == dbaas.CodeFull {
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnknown, "the outcome of the step is not known", err)
}

const (
	appendNext = `INSERT INTO rs_log(seq, epoch, at, sum, ops, changes) SELECT ?1, ?2, ?3, ?4, ?5, ?6
		WHERE ?1=1+coalesce((SELECT max(seq) FROM rs_log), 0)`
	appendFenced = appendNext + " AND ?2=(SELECT cur FROM rs_epoch)"
)

// Append implements Log.
func (l *FileLog) Append(ctx context.Context, r Record) error {
	return l.alone(ctx, func() error { return l.insert(&r) })
}

func (l *FileLog) insert(r *Record) error {
	e := &r.Entry
	insert := appendFenced
	if failpoint.On(failpoint.NoEpochCheck) {
		insert = appendNext
	}
	if err := l.writer.Exec(insert, columns(r)...); err != nil {
		return fmt.Errorf("append entry %d: %w", e.Seq, err)
	}
	if l.writer.Changes() == 1 {
		return nil
	}
	b, err := bounds(l.writer)
	if err != nil {
		return err
	}
	if b.Head.Epoch != e.Epoch {
		return fmt.Errorf("append entry %d: epoch %d, newest is %d: %w", e.Seq, e.Epoch, b.Head.Epoch, dbaas.ErrStaleEpoch)
	}
	return dbaas.Errorf(dbaas.CodeConflict, "entry %d does not follow the log's head %d", e.Seq, b.Head.Seq)
}

// columns returns a record as the parameters of an insert into rs_log.
func columns(r *Record) []dbaas.Value {
	w := RowOf(r)
	return []dbaas.Value{
		dbaas.Integer(w.Seq), dbaas.Integer(w.Epoch), dbaas.Integer(w.At), dbaas.Integer(w.Sum), dbaas.Blob(w.Operations), dbaas.Blob(w.Changes),
	}
}

func integer[T ~uint64](v T) dbaas.Value {
	return dbaas.Integer(int64(v))
}

// Read implements Log.
func (l *FileLog) Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error) {
	var records []Record
	err := l.readers.Use(ctx, func(c *sqlite.Conn) error {
		b, err := bounds(c)
		if err != nil {
			return err
		}
		if after < b.Trimmed {
			return fmt.Errorf("entries after %d, trimmed up to %d: %w", after, b.Trimmed, dbaas.ErrGone)
		}
		records, err = readRecords(c, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return records, nil
}

// readRecords reads the sizes first, so that the records never use more memory than limit.Bytes. Only the first record
// may be larger.
func readRecords(c *sqlite.Conn, after dbaas.Seq, limit Limit) ([]Record, error) {
	count, size := 0, int64(0)
	err := c.Query("SELECT length(ops)+length(changes) FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?", func(r sqlite.Row) error {
		size += r.Int(0)
		if count == 0 || size <= int64(limit.Bytes) {
			count++
		} else {
			size = 1 << 62 // no later record fits either.
		}
		return nil
	}, integer(after), dbaas.Integer(int64(limit.Records)))
	if err != nil || count == 0 {
		return nil, err
	}
	records := make([]Record, 0, count)
	query := "SELECT seq, epoch, at, sum IS NULL, sum, ops, changes FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?"
	if limit.NoChanges { // changes are the last column, so the engine does not read their pages.
		query = "SELECT seq, epoch, at, sum IS NULL, sum, ops, x'00' FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?"
	}
	err = c.Query(query, func(r sqlite.Row) error {
		records = append(records, readRecord(r, limit.NoChanges))
		return nil
	}, integer(after), dbaas.Integer(int64(count)))
	if err != nil || limit.Damaged {
		return records, err
	}
	return Undamaged(records, after)
}

// readRecord reads one row of rs_log. A row of an older version has no sum; it counts as damaged only if it cannot be
// decoded.
func readRecord(r sqlite.Row, noChanges bool) Record {
	w := Row{Seq: r.Int(0), Epoch: r.Int(1), At: r.Int(2), Sum: r.Int(4), Operations: r.Blob(5), Changes: r.Blob(6)}
	if unsummed := r.Int(3) != 0; unsummed {
		return w.record(0)
	}
	return w.Record(noChanges)
}

// Head implements Log.
func (l *FileLog) Head(ctx context.Context) (Bounds, error) {
	var b Bounds
	if l.unknown.Load() {
		if err := l.overwrite(ctx); err != nil {
			return b, err
		}
	}
	err := l.readers.Use(ctx, func(c *sqlite.Conn) (err error) {
		b, err = bounds(c)
		return err
	})
	return b, err
}

// overwrite makes sure that a transaction whose COMMIT has failed never takes effect. After a failed fsync all of the
// transaction is in the WAL, behind the end that this process knows, and the next start would find it there. The next
// transaction overwrites its first page. The engine writes a page for this statement even if the value stays the same.
func (l *FileLog) overwrite(ctx context.Context) error {
	err := l.alone(ctx, func() error { return l.writer.Exec("PRAGMA user_version=0") })
	if err != nil {
		return fmt.Errorf("undo a failed step: %w", err)
	}
	return nil
}

func bounds(c *sqlite.Conn) (Bounds, error) {
	var b Bounds
	err := c.Query(`SELECT coalesce((SELECT max(seq) FROM rs_log), 0), cur, trimmed
		FROM rs_epoch, rs_bounds`, func(r sqlite.Row) error {
		b.Head = dbaas.Head{Seq: dbaas.Seq(r.Int(0)), Epoch: dbaas.Epoch(r.Int(1))}
		b.Trimmed = dbaas.Seq(r.Int(2))
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("read the log's bounds: %w", err)
	}
	return b, nil
}

// Trim implements Log.
func (l *FileLog) Trim(ctx context.Context, seq dbaas.Seq, _ int64) error {
	err := l.alone(ctx, func() error {
		err := l.writer.Exec("DELETE FROM rs_log WHERE seq<=? AND seq<(SELECT max(seq) FROM rs_log)", integer(seq))
		if err != nil || l.writer.Changes() == 0 {
			return err
		}
		return l.writer.Exec(`UPDATE rs_bounds SET trimmed=(SELECT min(seq) FROM rs_log)-1`)
	})
	if err != nil {
		return fmt.Errorf("trim log up to %d: %w", seq, err)
	}
	return nil
}
