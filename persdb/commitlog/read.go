package commitlog

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

// pageEntries and pageBytes bound one page of the log: about 4 MiB, large enough for a replica to catch up quickly and
// small enough to hold in memory.
const (
	pageEntries = 4096
	pageBytes   = 4 << 20
)

// Head returns the newest position and the newest epoch. Unless the log is shared, it does not wait for commits. A shared
// log is asked first: no other process has committed beyond the returned head before the call.
func (s *Store) Head(ctx context.Context) (dbaas.Head, error) {
	if s.cfg.Shared {
		if err := s.confirm(ctx); err != nil {
			return dbaas.Head{}, unread(err)
		}
	}
	return s.known(), nil
}

// known returns the head as far as this process knows it.
func (s *Store) known() dbaas.Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head()
}

// head returns the newest position and epoch of this cluster. The caller holds mu.
func (s *Store) head() dbaas.Head {
	return dbaas.Head{Cluster: s.cluster, Seq: s.bounds.Head.Seq, Epoch: s.bounds.Head.Epoch}
}

// Log returns the head and the entries after a position, in order, as many as fit in a page. If there are none, Log
// waits up to wait for an entry, and then returns an empty page.
//
// dbaas.ErrNotActive means that the process is not the active one and does not follow the log, so there may be more entries.
//
// dbaas.ErrGone means that entries after the position were trimmed, or that the position is after the head; the bounds
// in the page show which. CodeDamaged means that the entry after the position is damaged. In all these cases the caller
// must take a snapshot.
func (s *Store) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	page, err := s.Changes(ctx, after, wait, pageBytes)
	for i := range page.Entries {
		page.Entries[i] = page.Entries[i].ForReplicas()
	}
	return page, err
}

// Changes is Log for the change feed: the entries keep the data that only the feed's consumers need. A page has at most size
// bytes, or a single entry.
func (s *Store) Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error) {
	page, err := s.await(ctx, after, wait)
	if err != nil {
		return dbaas.Page{}, err
	}
	if after > page.Head.Seq && s.cfg.Shared { // only the active process knows whether there is more.
		if page.Head, err = s.Head(ctx); err != nil {
			return dbaas.Page{}, err
		}
	}
	if after > page.Head.Seq {
		return page, fmt.Errorf("entries after %d, the head is %d: %w", after, page.Head.Seq, dbaas.ErrGone)
	}
	if after == page.Head.Seq {
		return page, nil
	}
	records, err := s.log.Read(ctx, after, Limit{Records: pageEntries, Bytes: min(size, pageBytes)})
	if dbaas.CodeOf(err) == dbaas.CodeGone {
		return s.gone(ctx, page, err)
	}
	if err != nil {
		return dbaas.Page{}, unread(err)
	}
	page.Entries = make([]dbaas.Entry, 0, len(records))
	for i := range records {
		if e := records[i].Entry; e.Seq <= page.Head.Seq {
			e.Cluster = s.cluster
			page.Entries = append(page.Entries, e)
		}
	}
	return page, nil
}

// gone returns the page and the error for entries that were trimmed. It reads the start of the log again, because the
// log may have been trimmed after the page's bounds were read.
func (s *Store) gone(ctx context.Context, page dbaas.Page, err error) (dbaas.Page, error) {
	first, failed := s.firstOfLog(ctx)
	if failed != nil {
		return dbaas.Page{}, unread(failed)
	}
	page.First = first
	return page, err
}

// firstOfLog returns the first entry that the log keeps.
func (s *Store) firstOfLog(ctx context.Context) (dbaas.Seq, error) {
	look := s.log.Head
	if shared, ok := s.log.(SharedLog); ok {
		look = shared.Look
	}
	b, err := look(ctx)
	return b.Trimmed + 1, err
}

// Await waits up to wait until the log has an entry after a position. It returns the maximum size in bytes of the page
// after that position, or 0 if there is no entry. It returns CodeTimeout if ctx ends first.
func (s *Store) Await(ctx context.Context, after dbaas.Seq, wait time.Duration) (int64, error) {
	page, err := s.await(ctx, after, wait)
	if err != nil || after >= page.Head.Seq {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if entries := s.index.entries; len(entries) > 0 && after+1 >= entries[0].seq {
		return max(pageBytes, entries[after+1-entries[0].seq].bytes), nil
	}
	return pageBytes, nil
}

// unread converts errors of reading to the codes that callers expect.
func unread(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are alike.
	case dbaas.CodeGone, dbaas.CodeDamaged, dbaas.CodeNotFound, dbaas.CodeUnavailable:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the log could not be read now", err)
}

// await returns a page without entries once the head differs from after, or when wait is over.
func (s *Store) await(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	if err := s.leftBehind(); err != nil && after >= s.known().Seq { // a process that hangs must not say that there is nothing
		return dbaas.Page{}, err
	}
	var over <-chan time.Time
	for {
		s.mu.RLock()
		page, changed := dbaas.Page{Head: s.head(), First: s.bounds.Trimmed + 1}, s.changed
		s.mu.RUnlock()
		if page.Head.Seq != after || wait <= 0 {
			return page, nil
		}
		if over == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-over:
			return page, nil
		case <-ctx.Done():
			return page, dbaas.WrapError(dbaas.CodeTimeout, "the caller stopped waiting", ctx.Err())
		}
	}
}

// Lookup returns the result of an operation that is still in the log, otherwise CodeNotFound.
// An unknown operation may be in an entry that another process appended to a shared log, so Lookup asks the log.
func (s *Store) Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error) {
	if s.inactive.Load() {
		return dbaas.OperationResult{}, dbaas.ErrNotActive
	}
	known := lookup{s: s}
	record, ok, err := known.find(ctx, id)
	if err == nil && !ok && s.cfg.Shared {
		if err = s.caughtUp(ctx); err == nil {
			record, ok, err = known.find(ctx, id)
		}
	}
	if err != nil {
		return dbaas.OperationResult{}, unread(err)
	}
	if !ok {
		return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "operation %s is not known", id)
	}
	return record.Result, nil
}

// caughtUp returns nil once the store knows what a shared log has now. It waits for a commit that is about to end, but
// not while entries of another process are read.
func (s *Store) caughtUp(ctx context.Context) error {
	b, err := s.headOfLog(ctx)
	if err == nil && !s.knows(b) {
		_, err = s.await(ctx, b.Head.Seq-1, endOfCommit)
	}
	if err == nil && !s.knows(b) {
		err = dbaas.Errorf(dbaas.CodeUnavailable, "entries of the log are being read")
	}
	return err
}

// endOfCommit is how long caughtUp waits for a commit whose entry is in the log.
const endOfCommit = time.Second

// lookup finds stored operations. It caches the last entry, since operations that are repeated usually arrive together.
type lookup struct {
	s       *Store
	seq     dbaas.Seq
	records []wire.Record
}

func (l *lookup) find(ctx context.Context, id dbaas.OpID) (wire.Record, bool, error) {
	l.s.mu.RLock()
	at, ok := l.s.index.places[id]
	l.s.mu.RUnlock()
	if !ok {
		return wire.Record{}, false, nil
	}
	if at.seq != l.seq {
		page, err := l.s.log.Read(ctx, at.seq-1, Limit{Records: 1, NoChanges: true})
		if dbaas.CodeOf(err) == dbaas.CodeGone {
			return wire.Record{}, false, nil // trimmed since.
		}
		if err != nil {
			return wire.Record{}, false, err
		}
		if len(page) == 0 {
			return wire.Record{}, false, dbaas.Errorf(dbaas.CodeInternal, "the log has no entry %d", at.seq)
		}
		l.records, _ = wire.DecodeRecords(page[0].Operations) // a missing record is detected below.
		l.seq = at.seq
	}
	if int(at.order) >= len(l.records) || l.records[at.order].Result.ID != id {
		return wire.Record{}, false, errDamaged(at.seq)
	}
	return l.records[at.order], true, nil
}

// HashPart returns the content hashes of about 64 MiB of rows, starting at from, all at one position. So a database of
// any size can be compared part by part.
func (s *Store) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	h := dbaas.HashPart{Limit: dbaas.HashPartBytes}
	err := s.hash(ctx, &h.Seq, func(c *sqlite.Conn, rest func()) (err error) {
		h.Tables, h.Next, err = replication.HashPart(c, from, h.Limit, rest)
		return err
	})
	if err != nil {
		return dbaas.HashPart{}, err
	}
	return h, nil
}

// Hashes returns the content hashes of all application tables at one position. It reads the whole database.
func (s *Store) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	var h dbaas.TableHashes
	err := s.hash(ctx, &h.Seq, func(c *sqlite.Conn, rest func()) (err error) {
		h.Tables, h.Damaged, err = replication.HashesAndDamage(c, rest)
		return err
	})
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	return h, nil
}

// hash runs fn at one position, which it stores in seq. fn calls rest between its pieces of work, so that it uses
// about half of a core.
func (s *Store) hash(ctx context.Context, seq *dbaas.Seq, fn func(c *sqlite.Conn, rest func()) error) error {
	err := s.readers.Use(ctx, func(c *sqlite.Conn) error {
		position, err := replication.Position(c)
		if err != nil {
			return err
		}
		*seq = position.Seq
		turns := wait.NewTurns()
		return fn(c, func() { turns.Rest(ctx) })
	})
	if err != nil {
		return unread(err)
	}
	return nil
}
