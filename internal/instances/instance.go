package instances

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/wait"
)

const (
	// deadFor is how long a dead instance is left alone before a probe, and the pause between two of its probes: short enough
	// to notice its return.
	deadFor = time.Second
	// probeAfter is how long a request waits before its instance is probed, and the pause between two probes.
	probeAfter = 300 * time.Millisecond
)

// errSilent ends a request whose instance does not answer probes.
var errSilent = errors.New("does not answer")

// instance is one address of a service. It is safe for concurrent use.
type instance struct {
	url       *url.URL
	transport *http.Transport
	now       func() time.Time
	probeTime time.Duration
	// probeAt is when the next probe looks whether the dead instance is back, in Unix nanoseconds; zero if the instance lives.
	probeAt atomic.Int64

	mu      sync.Mutex // guards probing
	probing *probe     // nil if no probe is in progress
}

// probe is one probe. err is valid once done is closed.
type probe struct {
	done chan struct{}
	err  error
}

// die marks the instance dead.
func (in *instance) die() { in.probeAt.Store(in.now().Add(deadFor).UnixNano()) }

// dead reports whether requests should go to other instances. It probes a dead instance now and then, so that no request pays
// for an instance that is still dead.
func (in *instance) dead() bool {
	at := in.probeAt.Load()
	if at == 0 {
		return false
	}
	if now := in.now(); now.UnixNano() >= at && in.probeAt.CompareAndSwap(at, now.Add(deadFor).UnixNano()) {
		go func() { // ends after in.probeTime
			if in.answers() == nil {
				in.probeAt.Store(0)
			}
		}()
	}
	return true
}

// watch returns a context that ends with errSilent when the instance does not answer probes. The caller calls ended when the
// request is over.
func (in *instance) watch(ctx context.Context) (watched context.Context, ended func()) {
	watched, end := context.WithCancelCause(ctx)
	stop := wait.Often(watched, probeAfter, func() {
		if err := in.answers(); err != nil {
			in.die() // even if the request has ended: a short request may end before the probe does
			end(err)
		}
	})
	return watched, func() { stop(); end(nil) }
}

// answers returns nil if the instance answers a probe, otherwise errSilent. Concurrent callers share a probe.
func (in *instance) answers() error {
	in.mu.Lock()
	p := in.probing
	if p == nil {
		p = &probe{done: make(chan struct{})}
		in.probing = p
		go func() { // ends after in.probeTime
			p.err = in.probe()
			in.mu.Lock()
			in.probing = nil
			in.mu.Unlock()
			close(p.done)
		}()
	}
	in.mu.Unlock()
	<-p.done
	return p.err
}

// probe sends OPTIONS *, which a Go server answers itself, whatever its routes do or wait for. Any answer will do.
func (in *instance) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), in.probeTime)
	defer cancel()
	r := (&http.Request{Method: http.MethodOptions, URL: &url.URL{Scheme: in.url.Scheme, Host: in.url.Host, Opaque: "*"}, Header: http.Header{}}).WithContext(ctx)
	resp, err := in.transport.RoundTrip(r)
	if err != nil {
		in.transport.CloseIdleConnections()                                 // after a restart of the host, idle connections may never answer
		return fmt.Errorf("%s %w: %s", in.url.Host, errSilent, err.Error()) // not %w: a time-out of the probe is not a time-out of the request
	}
	_ = resp.Body.Close() // read only: nothing to lose.
	return nil
}
