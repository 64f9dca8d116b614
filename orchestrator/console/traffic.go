package console

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Point is the traffic of the database's API in one second.
type Point struct {
	// At is the end of that second, in milliseconds since 1970.
	At     int64 `json:"at"`
	Reads  Rate  `json:"reads"`
	Writes Rate  `json:"writes"`
}

// Rate is the traffic of one kind of request.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	// Errors are the answers per second with a status of 500 or above.
	Errors float64 `json:"errors"`
	// P50 and P99 are times to the answer in milliseconds, at most an eighth too high; 0 without requests.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// kinds maps the routes of the database's API to reads or writes. Other routes are not counted. The route alone decides:
// /db/request counts as a write, also if its statements only read.
var kinds = map[string]int{
	"/api/v1/db/read": reads, "/db/query": reads,
	"/api/v1/db/write": writes, "/db/execute": writes, "/db/request": writes, "/api/v1/db/clear": writes, "/db/load": writes,
}

const (
	reads = iota
	writes
	kindCount
)

// bucketCount is enough for durations up to a minute: each power of two of microseconds has 8 buckets.
const bucketCount = 192

// traffic counts requests since the last take. It is safe for concurrent use.
type traffic [kindCount]struct {
	took   [bucketCount]atomic.Uint32
	errors atomic.Uint32
}

func (t *traffic) observe(route string, status int, took time.Duration) {
	kind, counted := kinds[route]
	if !counted {
		return
	}
	t[kind].took[bucketOf(took)].Add(1)
	if status >= 500 {
		t[kind].errors.Add(1)
	}
}

// bucketOf returns the bucket of a duration. From 8 µs on, a bucket's upper bound is at most an eighth above its lower
// bound.
func bucketOf(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	power := bits.Len64(us) - 4
	return min(8*power+int(us>>power), bucketCount-1)
}

// upper returns the upper bound of a bucket, in milliseconds.
func upper(bucket int) float64 {
	if bucket < 8 {
		return float64(bucket+1) / 1000
	}
	power := bucket/8 - 1
	return float64((bucket%8+9)<<power) / 1000
}

// take returns the traffic since the last take. elapsed is the time since then.
func (t *traffic) take(now time.Time, elapsed time.Duration) Point {
	p := Point{At: now.UnixMilli()}
	for kind, rate := range []*Rate{&p.Reads, &p.Writes} {
		var counts [bucketCount]uint32
		total := uint32(0)
		for i := range counts {
			counts[i] = t[kind].took[i].Swap(0)
			total += counts[i]
		}
		rate.PerSecond = perSecond(total, elapsed)
		rate.Errors = perSecond(t[kind].errors.Swap(0), elapsed)
		rate.P50, rate.P99 = quantile(&counts, total, 0.5), quantile(&counts, total, 0.99)
	}
	return p
}

func perSecond(n uint32, elapsed time.Duration) float64 {
	return math.Round(10*float64(n)/elapsed.Seconds()) / 10
}

// quantile returns the upper bound of the bucket in which the quantile q lies; 0 if total is 0.
func quantile(counts *[bucketCount]uint32, total uint32, q float64) float64 {
	rank := uint32(math.Ceil(q * float64(total)))
	for i, n := range counts {
		if rank <= n {
			if rank == 0 {
				return 0
			}
			return upper(i)
		}
		rank -= n
	}
	return upper(bucketCount - 1)
}
