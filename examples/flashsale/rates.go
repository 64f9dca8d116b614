package main

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// quota limits the orders of each kind of goods. start is how much of the burst is available at the start.
type quota struct {
	perSecond    float64
	burst, start int
}

// parseQuota reads "off", the name of a preset, or PER_SECOND:BURST.
func parseQuota(text string) (quota, error) {
	switch text {
	case "off":
		return quota{}, nil
	case "flash-1000":
		return quota{perSecond: 1000, burst: 500_000, start: 50_000}, nil
	}
	var q quota
	_, err := fmt.Sscanf(text+"\n", "%g:%d\n", &q.perSecond, &q.burst)
	if err != nil || !(q.perSecond > 0 && q.perSecond <= 1e9) || q.burst < 1 {
		return quota{}, fmt.Errorf("%q is not off, flash-1000 or PER_SECOND:BURST, such as 100:200", text)
	}
	q.start = q.burst
	return q, nil
}

// maxBuckets bounds the buckets: a client can order any goods, even goods that do not exist.
const maxBuckets = 10_000

// rates refuses orders beyond the quota of their goods immediately. It has a bucket of tokens for each goods; beyond
// maxBuckets, all further goods share one bucket.
type rates struct {
	quota   quota
	now     func() time.Time
	mu      sync.Mutex // guards buckets
	buckets map[int64]*rate.Limiter
}

func newRates(q quota) *rates {
	return &rates{quota: q, now: time.Now, buckets: map[int64]*rate.Limiter{}}
}

// take takes a token for an order of goods. If there is none, it returns the time until there is one.
func (r *rates) take(goods int64) time.Duration {
	if r.quota.burst == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now()
	if r.buckets[goods] == nil && len(r.buckets) >= maxBuckets {
		goods = 0
	}
	bucket := r.buckets[goods]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Limit(r.quota.perSecond), r.quota.burst)
		bucket.AllowN(at, r.quota.burst-r.quota.start) // A new bucket is full.
		r.buckets[goods] = bucket
	}
	if bucket.AllowN(at, 1) {
		return 0
	}
	return max(time.Nanosecond, time.Duration((1-bucket.TokensAt(at))/r.quota.perSecond*float64(time.Second)))
}
