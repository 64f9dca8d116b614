package system

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A worker that listens a little later is reached. A worker that never listens costs half a second, and one whose name
// is unknown costs nothing.
func TestPatient(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	nobody := &net.DNSError{Err: "no such host", IsNotFound: true}
	for name, tt := range map[string]struct {
		refusals int
		want     error
		took     time.Duration
	}{
		"ListensAtOnce": {0, nil, 0},
		"ListensSoon":   {3, nil, 3 * connectPause},
		"NeverListens":  {1000, refused, connectPatience},
		"NoSuchHost":    {0, nobody, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := tt.refusals
				dial := retrying(func(context.Context, string, string) (net.Conn, error) {
					if left > 0 {
						left--
						return nil, refused
					}
					return nil, tt.want
				})
				start := time.Now()
				if _, err := dial(t.Context(), "tcp", "worker:9540"); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// The caller's end ends the patience.
func TestPatient_CallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		dial := retrying(func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
		if _, err := dial(ctx, "tcp", "worker:9540"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// Calls to workers do not go through the proxy of the environment.
func TestPatient_NoProxy(t *testing.T) {
	if newPatientTransport(nil).Proxy != nil {
		t.Error("the transport has a proxy, want none")
	}
}
