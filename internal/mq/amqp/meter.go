package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// Meter asks the broker how many messages wait. It implements mq.Meter.
//
// RabbitMQ asks the leader of a quorum queue for the count and waits one second. If there is no leader, or it is
// slow, the broker answers 0 (3.10.8; a test shows it).
type Meter struct {
	config     Config
	names      names
	asking     *link[*session]
	cancel     context.CancelFunc // ends the link
	background sync.WaitGroup     // the link
}

var _ mq.Meter = (*Meter)(nil)

// DialMeter returns a Meter that connects, and reconnects, in the background until Close. The error describes what is
// wrong with the settings.
func DialMeter(config Config) (*Meter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bus settings: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Meter{config: config, names: newNames(config.Prefix), cancel: cancel}
	m.asking = newLink("bus meter", config, func(ctx context.Context, at node) (*session, error) {
		return dialMember(ctx, config, at, config.Name+" meter")
	})
	m.background.Go(func() { m.asking.run(ctx) })
	return m, nil
}

// Depths implements mq.Meter.
func (m *Meter) Depths(ctx context.Context, queues ...mq.Queue) (map[mq.Queue]int, error) {
	s, err := m.asking.next(ctx, nil, nil)
	switch {
	case errors.Is(err, mq.ErrClosed):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("not connected: %w: %w", mq.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { s.kill(ctx.Err()) }) // the library's calls take no context
	defer stop()
	if len(queues) == 0 {
		queues = append(mq.WorkQueues(), mq.DeadQ)
	}
	depths := map[mq.Queue]int{}
	for _, q := range queues {
		if m.config.cluster() && eachNode(q) {
			m.sum(s, q, depths)
			continue
		}
		n, err := s.depth(m.names.at(q, node{}))
		if refusal, ok := errors.AsType[*amqp091.Error](err); ok && refusal.Code == amqp091.NotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("depth of %s: %w: %w", q, mq.ErrUnavailable, opaque{err})
		}
		depths[q] = n
	}
	return depths, nil
}

// sum adds up a queue of each node. It leaves out a queue whose node is away, or does not answer within memberLimit.
func (m *Meter) sum(s *session, q mq.Queue, depths map[mq.Queue]int) {
	names := make([]string, len(m.config.nodes))
	for i, at := range m.config.nodes {
		names[i] = m.names.at(q, at)
	}
	timer := time.NewTimer(memberLimit)
	defer timer.Stop()
	answers := s.lookAll(names)
	for range names {
		select {
		case f := <-answers:
			if f.err == nil {
				depths[q] += f.state.Messages
			}
		case <-timer.C:
			return
		}
	}
}

// Close implements mq.Meter. It returns within some 2 s: if the broker does not answer, the socket is closed.
func (m *Meter) Close() error {
	m.asking.close()
	m.cancel()
	m.background.Wait()
	return nil
}

// depth returns how many messages of a queue wait. It uses a channel of its own, because the answer that the queue
// does not exist closes the channel.
func (s *session) depth(name string) (int, error) {
	var q amqp091.Queue
	err := s.aside("look at "+name, func(ch *amqp091.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q.Messages, err
}
