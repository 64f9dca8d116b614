package replica

import "sync/atomic"

// Stats holds counters since the start. It is safe for concurrent use.
type Stats struct {
	Entries, Drains, Duplicates, Gaps, StaleEpoch, Malformed, Dropped atomic.Int64
	CatchUps, Snapshots, Diverged, HeadErrors, ReadErrors             atomic.Int64
	// ReadsEnded counts reads that were stopped because they kept the WAL from being emptied.
	ReadsEnded atomic.Int64
	// Verified counts comparisons with persdb's hashes; VerifyErrors counts those without a result.
	Verified, VerifyErrors atomic.Int64
}

// Each calls f with every counter's name and value.
func (s *Stats) Each(f func(name string, value int64)) {
	f("entries_applied", s.Entries.Load())
	f("drains", s.Drains.Load())
	f("entries_duplicate", s.Duplicates.Load())
	f("gaps", s.Gaps.Load())
	f("entries_stale_epoch", s.StaleEpoch.Load())
	f("broadcasts_malformed", s.Malformed.Load())
	f("broadcasts_dropped", s.Dropped.Load())
	f("catch_ups", s.CatchUps.Load())
	f("snapshots", s.Snapshots.Load())
	f("diverged", s.Diverged.Load())
	f("head_errors", s.HeadErrors.Load())
	f("read_errors", s.ReadErrors.Load())
	f("reads_ended", s.ReadsEnded.Load())
	f("verified", s.Verified.Load())
	f("verify_errors", s.VerifyErrors.Load())
}
