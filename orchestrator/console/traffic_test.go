package console

import (
	"testing"
	"time"
)

// Each duration is in a bucket whose bound is not below it and at most an eighth above, up to a minute.
func TestBuckets_AreAnEighthWideAtMost(t *testing.T) {
	before := -1
	for us := time.Duration(0); us < 60_000_000; us += 1 + us/50 {
		b := bucketOf(us * time.Microsecond)
		bound, exact := upper(b), float64(us)/1000
		if b < before || b >= bucketCount || bound < exact || us > 8 && bound > exact*9/8+0.001 {
			t.Fatalf("%d µs: got bucket %d after %d with the bound %v ms", us, b, before, bound)
		}
		before = b
	}
	if b := bucketOf(time.Hour); b != bucketCount-1 {
		t.Errorf("an hour: got bucket %d, want the last", b)
	}
}

// A point has the rates, errors and quantiles of its second by kind, and the next point begins at zero. Routes that are
// not the database's do not count.
func TestTraffic_Take(t *testing.T) {
	var c traffic
	for i := range 100 {
		c.observe("/db/query", 200, time.Duration(i+1)*time.Millisecond)
	}
	c.observe("/api/v1/db/write", 503, 4*time.Microsecond)
	c.observe("/db/execute", 429, 4*time.Microsecond)
	c.observe("/metrics", 500, time.Second)
	now := time.UnixMilli(1_700_000_000_000)
	got := c.take(now, 2*time.Second)
	if got.At != 1_700_000_000_000 || got.Reads.PerSecond != 50 || got.Reads.Errors != 0 || got.Writes.PerSecond != 1 || got.Writes.Errors != 0.5 {
		t.Errorf("got %+v", got)
	}
	if p50, p99 := got.Reads.P50, got.Reads.P99; p50 < 50 || p50 > 57 || p99 < 99 || p99 > 112 || got.Writes.P50 != 0.005 {
		t.Errorf("got times %+v", got)
	}
	if again := c.take(now, time.Second); again != (Point{At: got.At}) {
		t.Errorf("the second after: got %+v, want nothing", again)
	}
}
