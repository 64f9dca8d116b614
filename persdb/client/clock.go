package client

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// HeaderTime is sent with every answer: the server's time when it received the request, in microseconds since 1970.
const HeaderTime = "X-Time"

const (
	// clockWindow is how long a sample counts: clocks drift, and are set.
	clockWindow = time.Minute
	// longestSample is the longest call that is a sample. Longer calls wait for entries, and say little.
	longestSample = 500 * time.Millisecond
)

// clock estimates the difference between a server's clock and this process's: it is wrong by half the time of a call at
// most, so the shortest recent call counts.
type clock struct {
	mu      sync.Mutex // guards the fields below
	ahead   time.Duration
	took    time.Duration
	at      time.Time
	sampled bool
}

// sample updates the estimate from the answer to a call: header is the value of HeaderTime.
func (c *clock) sample(header string, sent, answered time.Time) {
	micros, err := strconv.ParseInt(header, 10, 64)
	took := answered.Sub(sent)
	if err != nil || took > longestSample {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sampled && took > c.took && answered.Sub(c.at) < clockWindow {
		return
	}
	c.ahead, c.took, c.at, c.sampled = time.UnixMicro(micros).Sub(sent.Add(took/2)), took, answered, true
}

// difference returns the estimate; ok is false without a recent sample.
func (c *clock) difference(now time.Time) (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.sampled && now.Sub(c.at) < 2*clockWindow
}

// timed is a transport that samples the clock of the server that answers.
type timed struct {
	http.RoundTripper
	clock *clock
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	answer, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		t.clock.sample(answer.Header.Get(HeaderTime), sent, time.Now())
	}
	return answer, err
}

// ClockDifference returns by how much the clock of the server that answered last is ahead of this process's. ok is false
// if no call was short enough recently.
func (c *Client) ClockDifference() (ahead time.Duration, ok bool) {
	return c.clocks[c.current.Load()].difference(time.Now())
}
