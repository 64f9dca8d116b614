package slave

import "sync/atomic"

// Stats holds counters since the start. It is safe for concurrent use.
type Stats struct {
	// Busy is the total time of finished read transactions, in nanoseconds.
	Busy                                                                                                                    atomic.Int64
	Messages, Reads, Failed, Expired, NotCaughtUp, TakenOver, Crowded, Alone, AckedEarly, Rejected, Unroutable, ReplyErrors atomic.Int64
}

// Each calls f with every counter's name and value.
func (s *Stats) Each(f func(name string, value int64)) {
	f("read_messages", s.Messages.Load())
	f("reads", s.Reads.Load())
	f("reads_failed", s.Failed.Load())
	f("reads_expired", s.Expired.Load())
	f("reads_not_caught_up", s.NotCaughtUp.Load())
	f("reads_taken_over", s.TakenOver.Load())
	f("reads_crowded", s.Crowded.Load())
	f("read_messages_alone", s.Alone.Load())
	f("read_messages_lingered", s.AckedEarly.Load())
	f("read_messages_rejected", s.Rejected.Load())
	f("read_replies_unroutable", s.Unroutable.Load())
	f("read_reply_errors", s.ReplyErrors.Load())
}
