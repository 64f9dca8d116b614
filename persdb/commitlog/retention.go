package commitlog

import "time"

const (
	// minAge is the least time for which an entry is kept, even if it exceeds a bound of Retention: a broker redelivers a
	// message within seconds, and replicas fetch the log every few seconds. Only hardBytes overrides it.
	minAge = time.Minute
	// hardBytes is the multiple of Retention.Bytes above which young entries are trimmed too. A full disk stops all
	// writes. An entry trimmed early costs a snapshot for a replica that is behind, a refusal for a redelivered message,
	// and the key of a client that has not asked again within that time. So the disk has priority.
	hardBytes = 2
)

// Retention bounds the log. An entry is trimmed when it is older than For, or when it and all later entries together
// have more than Ops operations or more than Bytes. An entry younger than a minute is kept until the log exceeds twice
// Bytes.
//
// Age is the time since this process first saw the entry: a clock that steps has no effect, and after a restart all
// entries are new.
type Retention struct {
	For   time.Duration
	Ops   int
	Bytes int64 // of the log's records, at least 1; the file needs a little more
}

// trimmable returns how many of the oldest entries may be trimmed at now. It is a pure function; the newest entry is
// always kept.
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
