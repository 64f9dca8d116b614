package assembly

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"rideshare/internal/pause"
)

const (
	// connectPatience is how long a refused connection to a worker is tried again. A container
	// runs some 10 ms before its worker listens, and the engine's event is faster than that;
	// the loop's own next try would come a second later. It bounds what a worker that
	// has just died costs the loop.
	connectPatience = 500 * time.Millisecond
	connectPause    = 10 * time.Millisecond
)

// newPatientTransport returns a transport to control APIs that gives a worker that is
// just starting the time to listen.
func newPatientTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // It is one, as documented.
	t.DialContext = patient((&net.Dialer{Timeout: 5 * time.Second}).DialContext)
	return t
}

// dialFunc connects.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// patient returns dial, but tries again for a while when it is refused. Other errors, such
// as a name that nobody has any more, are final.
func patient(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		deadline := time.Now().Add(connectPatience)
		for {
			conn, err := dial(ctx, network, address)
			if !errors.Is(err, syscall.ECONNREFUSED) || !time.Now().Before(deadline) {
				return conn, err
			}
			if !pause.For(ctx, connectPause) {
				return nil, ctx.Err()
			}
		}
	}
}
