package commitlog

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/pause"
	"rideshare/internal/sqlite"
)

// Bounds of one page of the log: about 4 MiB, so that a replica that catches up
// takes large steps and no part holds much in memory.
const (
	pageEntries = 4096
	pageBytes   = 4 << 20
)

// Head returns the newest position and the newest epoch. It does not wait for commits.
func (s *Store) Head(context.Context) (dbaas.Head, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bounds.Head, nil
}

// Log returns the entries after a position, in order, as many as fit a page, and
// the head. When there is none it waits for one, up to wait, and then returns none.
//
// dbaas.ErrGone: entries after the position were trimmed, or it is after the head;
// either way the caller must take a snapshot.
func (s *Store) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	head, err := s.await(ctx, after, wait)
	if err != nil {
		return dbaas.Page{}, err
	}
	if after > head.Seq {
		return dbaas.Page{}, fmt.Errorf("entries after %d, the head is %d: %w", after, head.Seq, dbaas.ErrGone)
	}
	if after == head.Seq {
		return dbaas.Page{Head: head}, nil
	}
	records, err := s.log.Read(ctx, after, Limit{Records: pageEntries, Bytes: pageBytes})
	if err != nil {
		return dbaas.Page{}, unread(err)
	}
	page := dbaas.Page{Head: head, Entries: make([]dbaas.Entry, 0, len(records))}
	for i := range records {
		if e := records[i].Entry; e.Seq <= head.Seq {
			page.Entries = append(page.Entries, e)
		}
	}
	return page, nil
}

// unread turns errors of reading into those that callers know.
func unread(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are one.
	case dbaas.CodeGone, dbaas.CodeNotFound, dbaas.CodeUnavailable:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the log could not be read now", err)
}

// await returns the head once it is not at after, or when wait is over.
func (s *Store) await(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Head, error) {
	var over <-chan time.Time
	for {
		s.mu.RLock()
		head, changed := s.bounds.Head, s.changed
		s.mu.RUnlock()
		if head.Seq != after || wait <= 0 {
			return head, nil
		}
		if over == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-over:
			return head, nil
		case <-ctx.Done():
			return head, dbaas.WrapError(dbaas.CodeTimeout, "the caller stopped waiting", ctx.Err())
		}
	}
}

// Lookup returns the result of an operation that the log still knows, else an
// error with CodeNotFound.
func (s *Store) Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error) {
	known := lookup{s: s}
	record, ok, err := known.find(ctx, id)
	if err != nil {
		return dbaas.OperationResult{}, unread(err)
	}
	if !ok {
		return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "operation %s is not known", id)
	}
	return record.Result, nil
}

// lookup finds stored operations; it keeps the last entry, since operations that
// come again come together.
type lookup struct {
	s       *Store
	seq     dbaas.Seq
	records []frame.Record
}

func (l *lookup) find(ctx context.Context, id dbaas.OpID) (frame.Record, bool, error) {
	l.s.mu.RLock()
	at, ok := l.s.index.places[id]
	l.s.mu.RUnlock()
	if !ok {
		return frame.Record{}, false, nil
	}
	if at.seq != l.seq {
		page, err := l.s.log.Read(ctx, at.seq-1, Limit{Records: 1})
		if dbaas.CodeOf(err) == dbaas.CodeGone {
			return frame.Record{}, false, nil // trimmed since.
		}
		if err != nil {
			return frame.Record{}, false, err
		}
		if len(page) == 0 {
			return frame.Record{}, false, dbaas.Errorf(dbaas.CodeInternal, "the log has no entry %d", at.seq)
		}
		if l.records, err = frame.DecodeRecords(page[0].Operations); err != nil {
			return frame.Record{}, false, fmt.Errorf("operations of entry %d: %w", at.seq, err)
		}
		l.seq = at.seq
	}
	if int(at.order) >= len(l.records) || l.records[at.order].Result.ID != id {
		return frame.Record{}, false, dbaas.Errorf(dbaas.CodeInternal, "entry %d has no operation %s", at.seq, id)
	}
	return l.records[at.order], true, nil
}

// Hashes returns the content hashes of all application tables, all of one
// position. It reads the whole database.
func (s *Store) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	var h dbaas.TableHashes
	err := s.readers.Use(ctx, func(c *sqlite.Conn) error {
		position, err := c.Position()
		if err != nil {
			return err
		}
		h.Seq = position.Seq
		turns := pause.NewTurns()
		h.Tables, err = c.Hashes(func() { turns.Rest(ctx) })
		return err
	})
	if err != nil {
		return dbaas.TableHashes{}, unread(err)
	}
	return h, nil
}
