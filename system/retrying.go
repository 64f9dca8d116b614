package system

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"rideshare/internal/tlsfiles"
	"rideshare/internal/wait"
)

const (
	// connectPatience is how long a refused connection to a worker is retried. A container runs for some 10 ms before its
	// worker listens, and the engine's event arrives sooner; the loop's own next attempt would come a second later.
	// connectPatience also bounds the time that the loop loses to a worker that has just died.
	connectPatience = 500 * time.Millisecond
	connectPause    = 10 * time.Millisecond
)

// newPatientTransport returns a transport to control APIs that waits for a starting worker to listen. files has the CA
// that it trusts and the certificate that it presents.
func newPatientTransport(files *tlsfiles.Files) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // Its type is documented.
	t.Proxy = nil                                        // workers are reached directly
	t.DialContext = retrying((&net.Dialer{Timeout: 5 * time.Second}).DialContext)
	files.Trust(t)
	return t
}

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// retrying returns dial with retries, for a limited time, when the connection is refused. Other errors, such as an
// unknown host name, are final.
func retrying(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		deadline := time.Now().Add(connectPatience)
		for {
			conn, err := dial(ctx, network, address)
			if !errors.Is(err, syscall.ECONNREFUSED) || !time.Now().Before(deadline) {
				return conn, err
			}
			if !wait.For(ctx, connectPause) {
				return nil, ctx.Err()
			}
		}
	}
}
