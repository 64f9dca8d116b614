package master

import "sync/atomic"

// Stats holds counters since the start. It is safe for concurrent use.
type Stats struct {
	Messages, Operations, Commits, Entries, CommitErrors, Splits, Expired     atomic.Int64
	Rejected, DeadLetters, Unroutable, ReplyErrors, BroadcastErrors, LateAcks atomic.Int64
}

// Each calls f with every counter's name and value.
func (s *Stats) Each(f func(name string, value int64)) {
	f("write_messages", s.Messages.Load())
	f("operations", s.Operations.Load())
	f("commits", s.Commits.Load())
	f("entries_broadcast", s.Entries.Load()-s.BroadcastErrors.Load())
	f("commit_errors", s.CommitErrors.Load())
	f("commits_split", s.Splits.Load())
	f("operations_expired", s.Expired.Load())
	f("write_messages_rejected", s.Rejected.Load())
	f("dead_letters", s.DeadLetters.Load())
	f("write_replies_unroutable", s.Unroutable.Load())
	f("write_reply_errors", s.ReplyErrors.Load())
	f("broadcast_errors", s.BroadcastErrors.Load())
	f("write_acks_late", s.LateAcks.Load())
}
