package admission

import "time"

const (
	// window is for how long a request counts for its dependency after it has ended. Requests are counted in buckets of
	// bucketTime.
	window     = 2 * time.Second
	bucketTime = 100 * time.Millisecond
	buckets    = int(window / bucketTime)
	// enough is how many requests must have ended within window before failures of half of them open the breaker.
	enough = 20
	// A request that timed out counts as a failure only if its timeout was at least meant. Otherwise one user with
	// short deadlines could open the breaker for all.
	meant = time.Second
)

// outcomes counts the requests that ended within the last 2 s.
type outcomes struct {
	at     [buckets]int64 // time of the bucket, in units of bucketTime since 1970
	ended  [buckets]int
	failed [buckets]int
}

// add counts a request that ended at now, and reports whether the breaker must open: at least enough requests have
// ended within window, and half of them have failed.
func (o *outcomes) add(failed bool, now time.Time) (trip bool) {
	number := now.UnixNano() / int64(bucketTime)
	i := int(number % int64(buckets))
	if o.at[i] != number {
		o.at[i], o.ended[i], o.failed[i] = number, 0, 0
	}
	o.ended[i]++
	if !failed {
		return false
	}
	o.failed[i]++
	ended, bad := 0, 0
	for i, at := range o.at {
		if number-at < int64(buckets) {
			ended += o.ended[i]
			bad += o.failed[i]
		}
	}
	return ended >= enough && 2*bad >= ended
}

// Dependency is the breaker of a service that the orchestrator needs: the broker, the master or the slaves. It opens
// when the service goes down and closes when the service is back. It also opens for 2 s when half of the requests to
// the service fail.
type Dependency struct {
	Breaker

	down   bool
	recent outcomes
}

// Look records the state of the dependency at now. why says why the dependency is down; "" means that it is up. When it
// comes back, the failures counted so far are forgotten.
func (d *Dependency) Look(why string, now time.Time) {
	switch {
	case why != "":
		if !d.down {
			d.Breaker, d.down = d.open(0, now, why), true
		}
	case d.down:
		*d = Dependency{Breaker: d.closed()}
	case d.State == Open && !now.Before(d.Until):
		d.Breaker = d.halfOpen()
	}
}

// Ended records a request that ended at now. p is the Pass that Enter returned for it.
func (d *Dependency) Ended(p Pass, outcome Outcome, now time.Time) {
	if d.State != Closed {
		d.Breaker = d.Left(p, outcome, now)
		return
	}
	if outcome != Inconclusive && d.recent.add(outcome == Failed, now) {
		*d = Dependency{Breaker: d.open(firstOpen, now, "half of its requests failed")}
	}
}
