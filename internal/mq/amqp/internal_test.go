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
