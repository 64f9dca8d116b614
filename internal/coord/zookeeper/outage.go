package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// unknownFor is how long every attempt may fail with an unknown host name before the servers count as missing for good.
// A container has a name only while it runs, and the parts of a system start in any order.
const unknownFor = 5 * time.Minute

// errNoSession is the reason if a server accepted a connection and closed it, or did not answer on it.
var errNoSession = errors.New("the connection was accepted, and no session was given")

// outage logs that no server is reached. The sessions of a Coordinator share it, so that the log does not depend on how
// often a session is opened. A nil outage does nothing.
type outage struct {
	log    *slog.Logger
	giveUp func(error)

	mu      sync.Mutex // guards the fields below
	streak  wait.Streak
	reached bool      // at least once
	unknown time.Time // since when every failure has been an unknown host name; zero otherwise
	why     error     // why no server was reached last
}

// failed records that a server was not reached.
func (o *outage) failed(server string, err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why = fmt.Errorf("%s: %w", server, err)
	if o.streak.Fail() {
		o.log.Warn("coordinator not reached, trying again", logkey.Addr, server, logkey.Error, err)
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); !ok || !unknown.IsNotFound || o.reached {
		o.unknown = time.Time{}
		return
	}
	o.unknown = cmp.Or(o.unknown, time.Now())
	if took := time.Since(o.unknown); took >= unknownFor {
		o.giveUp(fmt.Errorf("coordinator: never reached, for %v: %w", took.Round(time.Second), o.why))
	}
}

// over records that a server gave a session.
func (o *outage) over() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	took := o.streak.Took()
	if failures := o.streak.End(); failures > 0 {
		o.log.Info("coordinator reached", logkey.Count, failures, logkey.Took, took)
	}
	o.reached, o.unknown, o.why = true, time.Time{}, nil
}

// reason returns why no server was reached last, or nil.
func (o *outage) reason() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}
