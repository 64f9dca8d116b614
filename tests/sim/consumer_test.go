package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/feedtest"
)

// consumer follows the change feed, dies again and again, and resumes at any orchestrator. It ignores events that it
// has already seen.
type consumer struct {
	feedtest.Consumer

	w   *world
	rnd *rand.Rand
}

// consumed is the table to which one of the consumers subscribes.
const consumed = "effects"

// startConsumers runs two consumers, of all tables and of one. The returned function waits until they have read to the
// end of the log, and compares their events with the log.
func (w *world) startConsumers() (end func()) {
	all := []*consumer{
		{w: w, rnd: w0(w.seed, "consumer")},
		{w: w, rnd: w0(w.seed, "consumer of a table"), Consumer: feedtest.Consumer{Tables: []string{consumed}}},
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() {
			for ctx.Err() == nil {
				c.read(time.Duration(c.rnd.Int64N(int64(3*time.Second))), ^dbaas.Seq(0))
			}
		})
	}
	return func() {
		stop()
		running.Wait()
		head, _ := w.store.Head(context.Background())
		for _, c := range all {
			for began := time.Now(); c.Seen < head.Seq && time.Since(began) < time.Minute; {
				c.read(15*time.Second, head.Seq)
			}
			if err := c.Check(context.Background(), w.store, head.Seq); err != nil {
				w.fail(fmt.Errorf("consumer of %v: %w", c.Tables, err))
			}
		}
	}
}

// read resumes at some orchestrator, and reads for a time or up to a position.
func (c *consumer) read(limit time.Duration, upTo dbaas.Seq) {
	o := c.w.pick(c.rnd)
	if o == nil {
		time.Sleep(time.Second)
		return
	}
	target := "/api/v1/changes?after=0"
	if c.Tables != nil {
		target += "&tables=" + strings.Join(c.Tables, ",")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s := feedtest.Open(ctx, o.feed, target, "Last-Event-ID", c.Last)
	defer s.Close()
	if s.Status != 200 {
		if s.Status != 503 {
			c.w.fail(fmt.Errorf("changes after %s: got %d %s", c.Last, s.Status, s.Body))
		}
		time.Sleep(100 * time.Millisecond)
		return
	}
	c.w.mu.Lock()
	c.w.resumed++
	c.w.mu.Unlock()
	context.AfterFunc(ctx, s.Leave)
	for c.Seen < upTo {
		e, err := s.Next()
		if err != nil {
			return
		}
		if err = c.Take(e); err != nil {
			c.w.fail(err)
		}
	}
}
