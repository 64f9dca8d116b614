// Package testenv contains helpers for the tests of several packages.
package testenv

import (
	"testing"
	"time"
)

// Limits of the wait between two attempts of Eventually. The waits grow, so that Eventually returns soon after an early
// success, and a long wait does not take CPU time from the code under test.
const (
	shortestPoll = 2 * time.Millisecond
	longestPoll  = 50 * time.Millisecond
)

// Within waits until ended is closed, and reports whether that took at most limit. It counts the time in ticks: a tick in which the whole
// machine stands still counts no more than another tick.
func Within(limit time.Duration, ended <-chan struct{}) bool {
	const tick = 100 * time.Millisecond
	for range limit / tick {
		select {
		case <-ended:
			return true
		case <-time.After(tick):
		}
	}
	return false
}

// Eventually calls check until it returns nil, and fails the test with its last error once limit has passed. The
// limit only ends a broken run; it does not assert speed.
func Eventually(tb testing.TB, limit time.Duration, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	for poll := shortestPoll; ; poll = min(longestPoll, poll*5/4) {
		late := time.Now().After(deadline)
		err := check()
		if err == nil {
			return
		}
		if late {
			tb.Fatalf("still wrong after %v: %v", limit, err)
		}
		time.Sleep(poll)
	}
}
