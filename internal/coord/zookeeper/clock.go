package zookeeper

import "time"

// clock is the session's own clock: it determines, without the server, the earliest time at which the server may end
// the session. An answer of the servers' leader proves that the leader heard from the session no earlier than the request
// was sent, so the session cannot end before one full timeout after that. The library's events are no such proof: a
// server that sends events may receive nothing. Neither are answers to reads: see agree.
//
// The session's mutex guards clock.
type clock struct {
	length time.Duration // the session timeout; zero before the session exists
	proof  time.Time     // when the newest answered request was sent
	timer  *time.Timer
}

// suspendAfter is how long after a proof a session with that timeout is suspended: two thirds. The last third allows for
// a late timer, the pause between two checks of it, and, with several servers, for what one server has not yet passed
// on to the others (half a tick).
func suspendAfter(length time.Duration) time.Duration { return length * 2 / 3 }

// beatEvery is how often an otherwise idle session sends a beat. It leaves enough time for a connection that is lost
// just before a beat: half of the timeout remains until it is suspended, in which to reconnect.
func beatEvery(length time.Duration) time.Duration { return length / 6 }

// init prepares the clock; over is called some time after the clock has run out.
func (c *clock) init(over func()) {
	c.timer = time.AfterFunc(time.Hour, over)
	c.timer.Stop()
}

// prove restarts the clock. An older proof changes nothing.
func (c *clock) prove(sent time.Time) {
	if !sent.After(c.proof) {
		return
	}
	c.proof = sent
	c.timer.Reset(time.Until(c.end()))
}

func (c *clock) end() time.Time { return c.proof.Add(suspendAfter(c.length)) }

// over reports whether the clock has run out; the timer may have fired while prove restarted the clock.
func (c *clock) over() bool { return c.length > 0 && !time.Now().Before(c.end()) }

func (c *clock) stop() { c.timer.Stop() }
