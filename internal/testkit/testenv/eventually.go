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
