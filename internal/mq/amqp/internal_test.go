package amqp //nolint:testpackage // the decision is not exported

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A write to a peer that does not read fails after a time; the library would wait for ever.
func TestDeadlineConn_NobodyReads_WriteFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }()
		start := time.Now()
		if _, err := (deadlineConn{ours}).Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: got %v, want a timeout", err)
		}
		if took := time.Since(start); took != writeTimeout { // of the bubble
			t.Errorf("write took %v, want %v", took, writeTimeout)
		}
	})
}

// The wait is random between zero and a bound that doubles with each failure up to the cap.
func TestBackoff_DoublesUpToTheCap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failures int
		luck     float64
		want     time.Duration
	}{
		{failures: 0, luck: 0.5, want: 50 * time.Millisecond},
		{failures: 1, luck: 0.5, want: 50 * time.Millisecond},
		{failures: 2, luck: 0.5, want: 100 * time.Millisecond},
		{failures: 6, luck: 0.5, want: 1600 * time.Millisecond},
		{failures: 7, luck: 0.5, want: 2500 * time.Millisecond},
		{failures: 1_000_000, luck: 0.5, want: 2500 * time.Millisecond},
		{failures: 5, luck: 0, want: 0},
	} {
		if got := backoff(c.failures, c.luck); got != c.want {
			t.Errorf("backoff(%d, %v): got %v, want %v", c.failures, c.luck, got, c.want)
		}
	}
}
