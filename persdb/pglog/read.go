package pglog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/persdb/commitlog"
)

// readLimit is how long one Read may take, also with an entry of the largest size.
const readLimit = 30 * time.Second

// lookEvery is how often a running read checks whether its server still answers.
const lookEvery = 500 * time.Millisecond

// reader is a connection for Read, and the session on whose server it is.
type reader struct {
	conn    *conn // nil if there is none
	session uint64
}

func (r *reader) close() {
	if r.conn != nil {
		r.conn.close()
		r.conn = nil
	}
}

// Read implements commitlog.Log. It returns only entries that count as stored.
func (l *Log) Read(ctx context.Context, after dbaas.Seq, limit commitlog.Limit) ([]commitlog.Record, error) {
	var r *reader
	select {
	case r = <-l.readers:
	case <-l.ctx.Done():
		return nil, dbaas.Errorf(dbaas.CodeUnavailable, "the log is closed")
	case <-ctx.Done():
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "other reads of the log are running", ctx.Err())
	}
	defer func() { l.readers <- r }()
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	// A look that fails ends the session, and the next look finds the new primary. An inactive process has no other call that would
	// do that while it reads.
	defer wait.Often(ctx, lookEvery, func() { _, _ = l.Look(ctx) })()
	var records []commitlog.Record
	var err error
	for at := l.place(); ; at = l.place() {
		used := r.conn != nil && r.session == at.session // it may have been lost since
		records, err = l.readOn(ctx, r, at, after, limit)
		failed := dbaas.CodeOf(err) == dbaas.CodeInternal
		if failed {
			r.close()
			err = dbaas.WrapError(dbaas.CodeUnavailable, "the log cannot be read", err)
		}
		if again := failed && used || at.over.Err() != nil; err == nil || !again || ctx.Err() != nil || l.ctx.Err() != nil {
			break
		}
	}
	if err == nil && !limit.Damaged {
		records, err = commitlog.Undamaged(records, after)
	}
	if err != nil {
		return nil, fmt.Errorf("read log after %d: %w", after, err)
	}
	return records, nil
}

func (l *Log) place() place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// readOn reads on a reader's connection, until a newer session is found. The entries up to at.stored are on the server at.from, and do
// not change.
func (l *Log) readOn(ctx context.Context, r *reader, at place, after dbaas.Seq, limit commitlog.Limit) ([]commitlog.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(at.over, cancel)()
	if r.conn != nil && r.session != at.session {
		r.close()
	}
	if r.conn == nil {
		c, err := at.from.connect(ctx)
		if err != nil {
			return nil, err
		}
		*r = reader{conn: c, session: at.session}
	}
	params := [][]byte{
		number(int64(after)), number(int64(at.stored)), number(int64(limit.Records)), number(int64(limit.Bytes)),
		strconv.AppendBool(nil, limit.NoChanges),
	}
	result := r.conn.pg.ExecParams(ctx, read, params, nil, nil, []int16{0, 0, 0, 0, 1, 1}).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	records := make([]commitlog.Record, 0, len(result.Rows))
	for _, row := range result.Rows {
		w, err := rowOf(row)
		if err != nil {
			return nil, err
		}
		records = append(records, w.Record(limit.NoChanges))
	}
	if len(records) > 0 && records[0].Entry.Seq == after+1 {
		return records, nil
	}
	return nil, r.gone(ctx, after, len(records) > 0)
}

// gone returns dbaas.ErrGone if the entry after seq was trimmed. later says whether there are entries after it.
func (r *reader) gone(ctx context.Context, after dbaas.Seq, later bool) error {
	result := r.conn.pg.ExecParams(ctx, trimmed, nil, nil, nil, nil).Read()
	if result.Err != nil || len(result.Rows) != 1 {
		return errors.Join(errors.New("the log's bounds cannot be read"), result.Err)
	}
	upTo, err := strconv.ParseUint(string(result.Rows[0][0]), 10, 64)
	switch {
	case err != nil:
		return err
	case after < dbaas.Seq(upTo):
		return fmt.Errorf("trimmed up to %d: %w", upTo, dbaas.ErrGone)
	case later:
		return fmt.Errorf("the log has no entry %d, and later ones", after+1)
	}
	return nil
}

// rowOf reads a row of read.
func rowOf(row [][]byte) (commitlog.Row, error) {
	var numbers [4]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(string(row[i]), 10, 64); err != nil {
			return commitlog.Row{}, fmt.Errorf("log: %w", err)
		}
	}
	return commitlog.Row{Seq: numbers[0], Epoch: numbers[1], At: numbers[2], Sum: numbers[3], Operations: row[4], Changes: row[5]}, nil
}
