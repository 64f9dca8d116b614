package readcache

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
)

// joinable is how long after its start a flight may be joined. While the broker takes no messages, a leader may be
// stuck until its deadline. Later reads must not wait for that leader: on their own they are refused immediately.
const joinable = time.Second

// flightKey is what a flight and the reads that join it have in common. A read with Recent must see every acknowledged
// write, and may wait until the head is known. Any other read never waits for the head.
type flightKey struct {
	key    string
	recent bool
}

// flight is a read that other reads with the same flightKey wait for.
type flight struct {
	cluster dbaas.ClusterID // as known when the flight began: rows of another cluster must not be shared
	want    dbaas.Seq       // the position that the leader asked for
	began   time.Time
	done    chan struct{} // closed with the answer
	result  dbaas.ReadResult
	err     error
}

// serves reports whether a read that wants position want may join the flight. Without Recent it joins only a leader that wants the
// same position, since it must not wait for a later one.
func (f *flight) serves(r *dbaas.Read, want dbaas.Seq, cluster dbaas.ClusterID, now time.Time) bool {
	return f.cluster == cluster && now.Sub(f.began) < joinable && f.want >= want && (r.Recent || f.want == want)
}

// fly joins the key's flight if that flight serves r. Otherwise r leads a new flight.
// A read that wants a position after the head is never joined: it waits for a future write, and others need not.
func (c *Cache) fly(ctx context.Context, r dbaas.Read, key string, want dbaas.Seq) (dbaas.ReadResult, error) {
	cluster, id := c.cfg.Cluster(), flightKey{key, r.Recent}
	c.mu.Lock()
	now := c.cfg.Now()
	if f := c.flights[id]; f != nil && f.serves(&r, want, cluster, now) {
		c.mu.Unlock()
		return c.join(ctx, r, key, f)
	}
	// A leader stores its answer before its flight ends, so without a flight the answer may be there by now.
	if result, ok := c.lookUp(&r, key, want); ok {
		c.mu.Unlock()
		return result, nil
	}
	if want > c.cfg.Seen() {
		c.mu.Unlock()
		return c.fill(ctx, r, key)
	}
	f := &flight{cluster: cluster, want: want, began: now, done: make(chan struct{}), err: dbaas.ErrUnavailable}
	c.flights[id] = f
	c.mu.Unlock()
	defer c.land(id, f) // also if Ask panics
	f.result, f.err = c.fill(ctx, r, key)
	return f.result, f.err
}

func (c *Cache) land(id flightKey, f *flight) {
	c.mu.Lock()
	if c.flights[id] == f {
		delete(c.flights, id)
	}
	c.mu.Unlock()
	close(f.done)
}

// join waits for the flight within r's own deadline. If the leader fails, or its answer may be the leader's own, such as a
// statement that ended after its db_timeout, r asks a worker itself, once.
func (c *Cache) join(ctx context.Context, r dbaas.Read, key string, f *flight) (dbaas.ReadResult, error) {
	waiting := ctx
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	select {
	case <-f.done:
	case <-waiting.Done():
		return dbaas.ReadResult{}, dbaas.WrapError(dbaas.CodeTimeout, "no answer came in time", waiting.Err())
	}
	if f.err != nil || len(f.result.Tags) == 0 { // The key alone decides only answers with tags.
		return c.fill(ctx, r, key)
	}
	result := f.result
	result.Level = dbaas.LevelFlight
	return result, nil
}
