package commitlog

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// trimChunk is how many entries are trimmed in one transaction: few enough that a commit never waits long for it.
const trimChunk = 256

// trimAlways trims periodically until ctx ends.
func (s *Store) trimAlways(ctx context.Context) {
	defer close(s.done)
	if s.cfg.TrimEvery < 0 {
		return
	}
	ticker := time.NewTicker(s.cfg.TrimEvery)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.tooLong:
		}
		s.watch(ctx)
		n, err := s.Trim(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if failures++; failures == 1 { // only the first of a series.
				s.cfg.Log.WarnContext(ctx, "log not trimmed", logkey.Error, err)
			}
		case err == nil && n > 0:
			failures = 0
			s.cfg.Log.InfoContext(ctx, "log trimmed", logkey.Count, n)
		}
	}
}

// Trim removes the entries that the retention bounds no longer keep, and returns how many. Their operations are no
// longer known and are refused if they are sent again. Trim runs in small transactions, so that commits can run in
// between.
func (s *Store) Trim(ctx context.Context) (int, error) {
	total := 0
	if s.inactive.Load() { // the active process trims.
		return 0, nil
	}
	for {
		n := 0
		err := s.write(ctx, nil, func() (err error) {
			n, err = s.trimSome(ctx)
			return err
		})
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

// keepTables makes the tables durable up to seq, so that no start needs the entries up to seq. The caller owns the
// connection.
func (s *Store) keepTables(ctx context.Context, seq dbaas.Seq) error {
	if s.synced >= seq {
		return nil
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	return s.syncTables()
}

// trimSome trims at most one chunk. The caller owns the connection.
func (s *Store) trimSome(ctx context.Context) (int, error) {
	x := &s.index // only the holder of the writing token changes it.
	n, gap := s.trimmableNow()
	if n == 0 {
		return 0, nil
	}
	records, err := s.log.Read(ctx, x.entries[0].seq-1, Limit{Records: n, Bytes: pageBytes, NoChanges: true, Damaged: true})
	if err != nil {
		return 0, err
	}
	if len(records) == 0 {
		return 0, nil
	}
	last := records[len(records)-1].Entry
	if err := s.keepTables(ctx, last.Seq); err != nil {
		return 0, unavailable(err)
	}
	size := int64(0)
	for i := range records {
		size += x.entries[i].bytes
	}
	if err := s.log.Trim(ctx, last.Seq, size); err != nil {
		s.doubtful = s.doubtful || dbaas.CodeOf(err) == dbaas.CodeUnknown
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		x.forget(&records[i])
	}
	if gap {
		s.noteGap(ctx)
	}
	s.bounds.Trimmed = last.Seq
	return len(records), nil
}
