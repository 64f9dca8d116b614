// Package testenv holds what tests of several packages need.
package testenv

import (
	"testing"
	"time"
)

// Between two tries Eventually waits, at first the shortest time, then ever longer up to the
// longest: what comes soon is seen at once, and a long wait does not take the CPU from what it waits for.
const (
	shortestPoll = 2 * time.Millisecond
	longestPoll  = 50 * time.Millisecond
)

// Eventually calls check until it returns nil, and fails the test with its last
// error once limit is over. The limit bounds a broken run, it is no assertion about speed.
func Eventually(tb testing.TB, limit time.Duration, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	for poll := shortestPoll; ; poll = min(longestPoll, poll*5/4) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("still wrong after %v: %v", limit, err)
		}
		time.Sleep(poll)
	}
}
