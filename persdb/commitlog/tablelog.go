package commitlog

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/frame"
	"rideshare/internal/sqlite"
)

// TableLog is the Log in tables of the state machine's own file, so that an entry
// and its rows are one transaction with one fsync.
type TableLog struct {
	writer  *sqlite.Conn // its owner calls Claim, Append and Trim one at a time
	readers *Readers
}

// logTables are the log's tables. A row of rs_log is one entry: ops and changes
// are frames, at is milliseconds since 1970. rs_bounds remembers what was trimmed.
var logTables = [...]string{
	`CREATE TABLE IF NOT EXISTS rs_epoch(one INTEGER PRIMARY KEY CHECK(one=1), cur INTEGER NOT NULL) STRICT`,
	`INSERT OR IGNORE INTO rs_epoch(one, cur) VALUES(1, 0)`,
	`CREATE TABLE IF NOT EXISTS rs_bounds(one INTEGER PRIMARY KEY CHECK(one=1), trimmed INTEGER NOT NULL, horizon INTEGER NOT NULL) STRICT`,
	`INSERT OR IGNORE INTO rs_bounds(one, trimmed, horizon) VALUES(1, 0, 0)`,
	`CREATE TABLE IF NOT EXISTS rs_log(seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, at INTEGER NOT NULL,
		ops BLOB NOT NULL, changes BLOB NOT NULL) STRICT`,
}

// NewTableLog returns the log in writer's file and makes its tables if they are
// missing, in the transaction that is open on writer. Reads use readers.
func NewTableLog(writer *sqlite.Conn, readers *Readers) (*TableLog, error) {
	for _, sql := range logTables {
		if err := writer.Exec(sql); err != nil {
			return nil, fmt.Errorf("create log: %w", err)
		}
	}
	return &TableLog{writer: writer, readers: readers}, nil
}

// Claim implements Log.
func (l *TableLog) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var epoch dbaas.Epoch
	err := l.writer.Within(ctx, func() error {
		if err := l.writer.BeginWrite(); err != nil {
			return err
		}
		return l.writer.Query("UPDATE rs_epoch SET cur=cur+1 WHERE one=1 RETURNING cur", func(r sqlite.Row) error {
			epoch = dbaas.Epoch(r.Int(0)) //nolint:gosec // counts up from 0.
			return nil
		})
	})
	if err == nil {
		err = l.writer.Commit()
	}
	if err != nil {
		_ = l.writer.End() // the first error is the one to tell.
		return 0, fmt.Errorf("claim epoch: %w", err)
	}
	return epoch, nil
}

const (
	appendNext = `INSERT INTO rs_log(seq, epoch, at, ops, changes) SELECT ?1, ?2, ?3, ?4, ?5
		WHERE ?1=1+coalesce((SELECT max(seq) FROM rs_log), 0)`
	appendFenced = appendNext + " AND ?2=(SELECT cur FROM rs_epoch)"
)

// Append implements Log. It runs in the transaction that is open on the writer.
func (l *TableLog) Append(_ context.Context, r Record) error {
	e := &r.Entry
	insert := appendFenced
	if failpoint.On(failpoint.NoEpochCheck) {
		insert = appendNext
	}
	err := l.writer.Exec(insert,
		integer(e.Seq), integer(e.Epoch), dbaas.Integer(e.At.UnixMilli()),
		dbaas.Blob(r.Operations), dbaas.Blob(frame.AppendChanges(nil, e.Changes)))
	if err != nil {
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

func integer[T ~uint64](v T) dbaas.Value {
	return dbaas.Integer(int64(v))
}

// Read implements Log.
func (l *TableLog) Read(ctx context.Context, after dbaas.Seq, limit Limit) ([]Record, error) {
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

// readRecords looks at the sizes first, so that a page never costs more memory
// than its bound, but for its first record.
func readRecords(c *sqlite.Conn, after dbaas.Seq, limit Limit) ([]Record, error) {
	count, size := 0, int64(0)
	err := c.Query("SELECT length(ops)+length(changes) FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?", func(r sqlite.Row) error {
		size += r.Int(0)
		if count == 0 || size <= int64(limit.Bytes) {
			count++
		} else {
			size = 1 << 62 // what follows does not fit either.
		}
		return nil
	}, integer(after), dbaas.Integer(int64(limit.Records)))
	if err != nil || count == 0 {
		return nil, err
	}
	records := make([]Record, 0, count)
	err = c.Query("SELECT seq, epoch, at, ops, changes FROM rs_log WHERE seq>? ORDER BY seq LIMIT ?", func(r sqlite.Row) error {
		changes, bad := frame.DecodeChanges(r.Blob(4))
		if bad != nil {
			return fmt.Errorf("changes of entry %d: %w", r.Int(0), bad)
		}
		records = append(records, Record{
			Entry: dbaas.Entry{
				Seq: dbaas.Seq(r.Int(0)), Epoch: dbaas.Epoch(r.Int(1)), //nolint:gosec // never negative.
				At: time.UnixMilli(r.Int(2)), Changes: changes,
			},
			Operations: r.Blob(3),
		})
		return nil
	}, integer(after), dbaas.Integer(int64(count)))
	return records, err
}

// Head implements Log.
func (l *TableLog) Head(ctx context.Context) (Bounds, error) {
	var b Bounds
	err := l.readers.Use(ctx, func(c *sqlite.Conn) (err error) {
		b, err = bounds(c)
		return err
	})
	return b, err
}

func bounds(c *sqlite.Conn) (Bounds, error) {
	var b Bounds
	err := c.Query(`SELECT coalesce((SELECT max(seq) FROM rs_log), 0), cur, trimmed, horizon
		FROM rs_epoch, rs_bounds`, func(r sqlite.Row) error {
		b.Head = dbaas.Head{Seq: dbaas.Seq(r.Int(0)), Epoch: dbaas.Epoch(r.Int(1))} //nolint:gosec // never negative.
		b.Trimmed = dbaas.Seq(r.Int(2))                                             //nolint:gosec // never negative.
		if ms := r.Int(3); ms != 0 {
			b.Horizon = time.UnixMilli(ms)
		}
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("read the log's bounds: %w", err)
	}
	return b, nil
}

// Trim implements Log.
func (l *TableLog) Trim(ctx context.Context, seq dbaas.Seq, at time.Time) error {
	err := l.writer.Within(ctx, func() error {
		if err := l.writer.BeginWrite(); err != nil {
			return err
		}
		err := l.writer.Exec("DELETE FROM rs_log WHERE seq<=? AND seq<(SELECT max(seq) FROM rs_log)", integer(seq))
		if err != nil || l.writer.Changes() == 0 {
			return err
		}
		return l.writer.Exec(`UPDATE rs_bounds SET trimmed=(SELECT min(seq) FROM rs_log)-1, horizon=max(horizon, ?)`,
			dbaas.Integer(at.UnixMilli()))
	})
	if err == nil {
		err = l.writer.Commit()
	}
	if err != nil {
		_ = l.writer.End() // the first error is the one to tell.
		return fmt.Errorf("trim log up to %d: %w", seq, err)
	}
	return nil
}
