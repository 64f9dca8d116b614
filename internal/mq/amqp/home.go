package amqp

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rideshare/internal/wait"
)

const (
	// homeTries is how many times the first node is tried in HomeAfter. The jitter of a move is as long as the pause between two tries.
	homeTries = 3
	// leaveLimit is how long a session that is left may still settle deliveries. Until then the single active consumer is there.
	leaveLimit = time.Second
)

// errMoved is the reason for the end of a session whose link has gone back to the first node.
var errMoved = errors.New("the connection has moved to the first node")

// home returns a life at the first node while the present life is at another one. It makes the new life first and watches it:
// only if that is up for HomeAfter does home return it, so that a move interrupts nothing. If the present life ends meanwhile,
// the new life takes its place at once. home returns false if there is none when the present life or ctx ends.
func (l *link[L]) home(ctx context.Context, present L, at node) (own L, found bool) {
	first := l.nodes[0]
	if at == first {
		return own, false
	}
	away, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with away
		select {
		case <-present.over():
			cancel()
		case <-away.Done():
		}
	}()
	for wait.For(away, l.homeAfter/homeTries) {
		if l.silent.next(l.nodes, 0) != 0 {
			continue
		}
		var err error
		if own, err = l.try(away, first); err != nil {
			continue
		}
		// The jitter keeps the parts that lost the node together from returning together.
		if stays(away, own, l.homeAfter+rand.N(l.homeAfter/homeTries+1)) { //nolint:gosec // no secret.
			return own, true
		}
		l.silent.heard(first, errors.Is(own.reason(), errSilent))
	}
	return own, false
}

// stays waits for d, or until ctx ends, and reports whether a life is still up then.
func stays(ctx context.Context, one life, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-one.over():
	}
	return one.reason() == nil
}

// leave ends a session whose link has another one. Consumers stop at once and go on with the other session; what they hold can
// be settled for leaveLimit. What is not settled is redelivered.
func (s *session) leave(ctx context.Context) { s.leaveIn(ctx, leaveLimit) }

func (s *session) leaveIn(ctx context.Context, limit time.Duration) {
	close(s.leaving)
	wait.For(ctx, limit)
	s.fail(errMoved)
	s.close()
}

// leave ends a publisher whose link has another one, after the time that a confirm may take. A message without a confirm is
// repeated.
func (p *publisher) leave(ctx context.Context) { p.leaveIn(ctx, p.config.ConfirmTimeout) }
