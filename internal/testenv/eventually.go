// Package testenv holds what tests of several packages need.
package testenv

import (
	"testing"
	"time"
)

// pollInterval is how long Eventually waits between two tries.
const pollInterval = 2 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with its last
// error once limit is over. The limit bounds a broken run, it is no assertion about speed.
func Eventually(tb testing.TB, limit time.Duration, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("still wrong after %v: %v", limit, err)
		}
		time.Sleep(pollInterval)
	}
}
