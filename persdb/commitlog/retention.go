package commitlog

import "time"

const (
	// minAge is how long an entry is kept whatever the bounds of time and operations are: a broker that delivers
	// a message again does so within seconds, and replicas fetch the log every few seconds.
	minAge = time.Minute
	// hardBytes is how many times Retention.Bytes the log may have before young entries are trimmed too. A disk that
	// is full stops all writes; an entry that is trimmed early costs a replica that is behind a snapshot, and a message
	// that comes again a refusal. So the disk goes first.
	hardBytes = 2
)

// Retention bounds the log. An entry is trimmed when it is older than For, or when it and what came after it are more
// than Ops operations or more than Bytes. An entry younger than a minute is kept until the log has twice Bytes.
//
// Age is the time since this process met the entry: a clock that steps changes nothing, and after a restart all
// entries are new.
type Retention struct {
	For   time.Duration
	Ops   int
	Bytes int64 // of the log's records, at least 1; the file needs a little more
}

// trimmable returns how many of the oldest entries the policy gives up at now.
// It is a pure function; the newest entry is always kept.
func (p Retention) trimmable(entries []entryInfo, ops int, bytes int64, now time.Duration) int {
	n := 0
	for n < len(entries)-1 {
		e := entries[n]
		age := now - e.met
		over := age > p.For || ops > p.Ops || bytes > p.Bytes
		if (age < minAge || !over) && bytes <= hardBytes*p.Bytes {
			break
		}
		ops -= e.ops
		bytes -= e.bytes
		n++
	}
	return n
}
