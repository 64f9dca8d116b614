package zookeeper

import "time"

// clock is a session's own: it says when the server may end the session, without
// the server. Any answer proves that the server heard of the session no earlier than
// the request was sent, so the session cannot end before that and a whole time-out
// more. The library's events are no such proof: a server that sends them may hear nothing.
//
// The session's mutex guards it.
type clock struct {
	length time.Duration // the session's; zero before there is one
	proof  time.Time     // when the newest request that was answered was sent
	timer  *time.Timer
}

// doubtAfter is how long after a proof a session of that length is in doubt: two thirds.
// The last third is for the timer that fires late, the pause between two looks
// at it, and, with several servers, for what one of them did not yet tell the others
// (half a tick).
func doubtAfter(length time.Duration) time.Duration { return length * 2 / 3 }

// beatEvery is how often a session of that length is proven when it is not used otherwise:
// often enough that a connection that is lost just before a beat can be made anew in the
// half of the length that is left until doubt.
func beatEvery(length time.Duration) time.Duration { return length / 6 }

// init prepares the clock; over is called, some time, when it is over.
func (c *clock) init(over func()) {
	c.timer = time.AfterFunc(time.Hour, over)
	c.timer.Stop()
}

// prove winds the clock up. An older proof changes nothing.
func (c *clock) prove(sent time.Time) {
	if !sent.After(c.proof) {
		return
	}
	c.proof = sent
	c.timer.Reset(time.Until(c.end()))
}

func (c *clock) end() time.Time { return c.proof.Add(doubtAfter(c.length)) }

// over reports whether it is; the timer may have fired while it was wound up.
func (c *clock) over() bool { return c.length > 0 && !time.Now().Before(c.end()) }

func (c *clock) stop() { c.timer.Stop() }
