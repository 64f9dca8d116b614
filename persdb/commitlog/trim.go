package commitlog

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/logkey"
)

// trimChunk is how many entries are trimmed in one transaction: few enough that a
// commit never waits long for it.
const trimChunk = 256

// trimAlways trims now and then until ctx ends.
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
		}
		n, err := s.Trim(ctx, s.cfg.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			if failures++; failures == 1 { // the first of a streak only.
				s.cfg.Log.WarnContext(ctx, "log not trimmed", logkey.Error, err)
			}
		case err == nil && n > 0:
			failures = 0
			s.cfg.Log.InfoContext(ctx, "log trimmed", logkey.Count, n)
		}
	}
}

// Trim forgets the entries that the retention bounds give up at now, and returns
// how many. Operations in them are no longer known: they are refused if they come
// again. It stops early, without an error, when commits want to go first.
func (s *Store) Trim(ctx context.Context, now time.Time) (int, error) {
	total := 0
	for {
		n := 0
		err := s.write(ctx, func() (err error) {
			n, err = s.trimSome(ctx, now)
			return err
		})
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

// trimSome trims at most one chunk. The caller owns the connection.
func (s *Store) trimSome(ctx context.Context, now time.Time) (int, error) {
	x := &s.index // written under writing only.
	n := min(s.cfg.Retain.trimmable(x.entries, x.ops, now), trimChunk)
	if n == 0 {
		return 0, nil
	}
	records, err := s.log.Read(ctx, x.entries[0].seq-1, Limit{Records: n, Bytes: pageBytes})
	if err != nil {
		return 0, err
	}
	if len(records) == 0 {
		return 0, nil
	}
	last := records[len(records)-1].Entry
	if err := s.log.Trim(ctx, last.Seq, last.At); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		if err := x.forget(&records[i]); err != nil {
			return 0, fmt.Errorf("operations of entry %d: %w", records[i].Entry.Seq, err)
		}
	}
	s.bounds.Trimmed, s.bounds.Horizon = last.Seq, last.At
	return len(records), nil
}
