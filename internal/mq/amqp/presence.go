package amqp

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// presencePeriod is how often a consumer that gets nothing asks whether its queue still knows it.
	presencePeriod = time.Second
	// presenceMisses is how many answers in a row without a consumer mean that the queue is another
	// one. A quorum queue whose leader does not answer the broker in time says 0 as well.
	presenceMisses = 2
)

// presence finds out that a queue does not know its consumer any more, though nobody has told: a quorum
// queue that is deleted and made anew under load was seen to forget its consumer without a cancel. It
// counts consumers, so it is only for a queue with one consumer at a time.
type presence struct {
	session *session
	queue   string

	delivered atomic.Bool   // since the last question
	lost      chan struct{} // closed when the queue does not know the consumer
}

func newPresence(s *session, queue string) *presence {
	return &presence{session: s, queue: queue, lost: make(chan struct{})}
}

// watch asks until the consumer is lost, or ended is closed, or the session is over.
func (p *presence) watch(ended <-chan struct{}) {
	tick := time.NewTicker(presencePeriod)
	defer tick.Stop()
	misses := 0
	for misses < presenceMisses {
		select {
		case <-ended:
			return
		case <-p.session.done:
			return
		case <-tick.C:
		}
		switch known, err := p.ask(); {
		case err != nil: // says nothing; if the session ends, so does this
		case known:
			misses = 0
		default:
			misses++
		}
	}
	close(p.lost)
}

// ask reports whether the queue has a consumer. Deliveries since the last question say so too.
func (p *presence) ask() (bool, error) {
	if p.delivered.Swap(false) {
		return true, nil
	}
	consumers, err := p.session.consumers(p.queue)
	if err != nil {
		return false, err
	}
	// A delivery that came meanwhile is the better witness.
	return consumers > 0 || p.delivered.Load(), nil
}

// consumers returns how many consumers a queue has: none if there is no such queue. It uses
// a channel of its own, which the broker closes when there is none.
func (s *session) consumers(queue string) (int, error) {
	ch, err := s.channel()
	if err != nil {
		return 0, err
	}
	defer s.closeChannel(ch)
	defer s.within(callTimeout, "look for "+queue)()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if failed, ok := errors.AsType[*amqp091.Error](err); ok && failed.Code == amqp091.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for %s: %w", queue, err)
	}
	return q.Consumers, nil
}
