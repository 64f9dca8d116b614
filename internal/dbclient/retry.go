package dbclient

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

const (
	// attempts is how often a call is sent at most.
	attempts = 3
	// firstPause bounds the random wait before the second attempt; the bound doubles up to longestPause.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
)

// end is how an attempt ended.
type end int

const (
	endAnswered    end = iota // whatever the answer says
	endGone                   // the caller has left, or this process failed; it says nothing about the database
	endBusy                   // 429, not done
	endUnavailable            // 503, or the request was never sent: not done
	endRunning                // 409: an attempt with the same key still runs
	endLost                   // 504, or the connection broke: perhaps done
	endElsewhere              // the orchestrator died: perhaps done; another orchestrator lives
	endBroken                 // the breaker was open: no attempt was made
)

// ended is an attempt that has ended: how, for how long the server asks to wait before the next attempt, and the error.
type ended struct {
	how  end
	wait time.Duration
	err  error
}

// endOf returns how an attempt ended, given the status of its answer and the error that it is converted to. A position
// that is not reached counts as answered: the client asked for a position too far ahead. Waiting for it again would
// pass the deadline of the request, and it must not count against the database. So does a full database: it still accepts
// writes that make room, and the breaker must not refuse those.
func endOf(status int, err error, write bool) end {
	if code := dbaas.CodeOf(err); code == dbaas.CodeNotCaughtUp || code == dbaas.CodeFull {
		return endAnswered
	}
	switch status {
	case http.StatusTooManyRequests:
		return endBusy
	case http.StatusServiceUnavailable:
		return endUnavailable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return endLost
	case http.StatusConflict:
		if write {
			return endRunning
		}
	}
	return endAnswered
}

// doubtful reports whether a write was perhaps done.
func (e end) doubtful() bool { return e == endRunning || e == endLost || e == endElsewhere }

// repeatable reports whether the same call may be sent again. A write has a key, under which it is done once. A read
// that was lost is not sent again: it may be the cause of the failure.
func (e end) repeatable(write bool) bool {
	return e == endBusy || e == endUnavailable || write && e.doubtful()
}

// Outcomes counts the second and third attempts of calls, and the attempts that were not made.
type Outcomes struct {
	// Answered and Failed count second and third attempts.
	Answered, Failed uint64
	// NoBudget: there were too many retries already. NoTime: the deadline would have come before the next attempt.
	NoBudget, NoTime uint64
	// Broken: the breaker was open, so not even a first attempt was made.
	Broken uint64
}

type outcomes struct{ answered, failed, noBudget, noTime, broken atomic.Uint64 }

// Outcomes returns the numbers since the start.
func (c *Client) Outcomes() Outcomes {
	o := &c.outcomes
	return Outcomes{Answered: o.answered.Load(), Failed: o.failed.Load(), NoBudget: o.noBudget.Load(), NoTime: o.noTime.Load(), Broken: o.broken.Load()}
}

// repeat calls try until it is answered, up to attempts times and never past deadline. If an attempt of a write was
// perhaps done, and no later attempt succeeds, it returns the error of that attempt, because the outcome is not known.
// CodeMismatch of the last attempt is returned all the same.
func (c *Client) repeat(ctx context.Context, write bool, deadline time.Time, try func() ended) error {
	c.budget.called(time.Now())
	pauses := wait.Backoff{First: firstPause, Cap: longestPause, Jitter: 1}
	var lost error
	var taken time.Time // when the budget gave this attempt, zero if it gave none
	for n := 1; ; n++ {
		last := c.attempt(write, try)
		how, err := last.how, last.err
		switch {
		case how == endBroken && !taken.IsZero():
			c.budget.giveBack(taken)
		case how != endBroken && n > 1:
			c.countAttempt(how)
		}
		if err == nil {
			return nil
		}
		if how.doubtful() && write && lost == nil {
			lost = err
		}
		if n < attempts && how.repeatable(write) {
			// Another orchestrator is not overloaded by what the dead one had: the attempt there needs neither pause nor budget.
			taken = time.Time{}
			again := how == endElsewhere
			if !again {
				taken, again = c.pause(ctx, deadline, pauses.Next()+last.wait)
			}
			if again {
				continue
			}
		}
		if lost != nil && dbaas.CodeOf(err) != dbaas.CodeMismatch {
			return lost
		}
		return err
	}
}

func (c *Client) countAttempt(how end) {
	if how == endAnswered {
		c.outcomes.answered.Add(1)
		return
	}
	c.outcomes.failed.Add(1)
}

// errBroken ends a call without an attempt.
func errBroken(rest time.Duration) error {
	return &dbaas.Error{Code: dbaas.CodeUnavailable, Message: "the database has not answered lately; try again", RetryAfter: rest}
}

// attempt calls try unless the breaker is open. Reads and writes have separate breakers: without a master, slaves still
// serve reads.
func (c *Client) attempt(write bool, try func() ended) ended {
	b := &c.reads
	if write {
		b = &c.writes
	}
	probe, rest, ok := b.enter(time.Now())
	if !ok {
		c.outcomes.broken.Add(1)
		return ended{how: endBroken, err: errBroken(rest)}
	}
	last := try()
	b.left(last.how, probe, time.Now())
	return last
}

// pause waits before the next attempt, and returns the time at which it took that attempt from the budget. It returns false,
// without waiting, if no further attempt may be made.
func (c *Client) pause(ctx context.Context, deadline time.Time, d time.Duration) (taken time.Time, ok bool) {
	now := time.Now()
	if now.Add(d).After(deadline) {
		c.outcomes.noTime.Add(1)
		return now, false
	}
	if !c.budget.take(now) {
		c.outcomes.noBudget.Add(1)
		return now, false
	}
	return now, wait.For(ctx, d)
}

const (
	// budgetSeconds is how long calls and retries count. In that time at most a tenth of the calls may be retries, but
	// budgetLeast retries are always allowed.
	budgetSeconds, budgetLeast = 10, 100
)

// budget bounds the retries, which would keep an overloaded database overloaded. It is safe for concurrent use.
type budget struct {
	mu sync.Mutex // guards the fields below
	// seconds has the counts of each of the last seconds. It has one second more than budgetSeconds, so that retries
	// count for at least 10 s and calls for at most 10 s.
	seconds [budgetSeconds + 1]struct {
		second         int64
		calls, retries int
	}
}

// called counts a call.
func (b *budget) called(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seconds[b.at(now)].calls++
}

// take counts a retry and reports whether it may be made.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.at(now)
	calls, retries := 0, 0
	for i := range b.seconds {
		s := &b.seconds[i]
		switch age := now.Unix() - s.second; {
		case age < budgetSeconds:
			calls += s.calls
			retries += s.retries
		case age == budgetSeconds:
			retries += s.retries
		}
	}
	if retries >= max(budgetLeast, calls/10) {
		return false
	}
	b.seconds[at].retries++
	return true
}

// giveBack takes back a retry that take counted at a time and that was not made.
func (b *budget) giveBack(taken time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	second := taken.Unix()
	if s := &b.seconds[second%int64(len(b.seconds))]; s.second == second {
		s.retries--
	}
}

// at returns the index of the current second, whose counts it resets if they belong to an older second.
func (b *budget) at(now time.Time) int {
	second := now.Unix()
	i := int(second % int64(len(b.seconds)))
	if s := &b.seconds[i]; s.second != second {
		s.second, s.calls, s.retries = second, 0, 0
	}
	return i
}

const (
	// breakAfter is the default of Config.BreakAfter.
	breakAfter = 10
	brokenFor  = time.Second
)

// breaker stops attempts while the database fails all of them. It is safe for concurrent use.
type breaker struct {
	after int // see Config.BreakAfter

	mu      sync.Mutex // guards the fields below
	failed  int        // attempts in a row
	until   time.Time  // no attempt is made before
	probing bool
}

// enter reports whether an attempt may be made, and otherwise for how long none may be made. After brokenFor it allows
// a single attempt, the probe.
func (b *breaker) enter(now time.Time) (probe bool, rest time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < b.after || b.after < 0 {
		return false, 0, true
	}
	if rest = b.until.Sub(now); rest > 0 || b.probing {
		return false, max(rest, 0), false
	}
	b.probing = true
	return true, 0, true
}

// left records how an attempt ended.
func (b *breaker) left(how end, probe bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	switch how {
	case endGone, endElsewhere, endBroken:
	case endUnavailable, endLost:
		b.failed++
		if b.failed == b.after || probe {
			b.until = now.Add(brokenFor)
		}
	case endAnswered, endBusy, endRunning:
		b.failed = 0
	}
}
