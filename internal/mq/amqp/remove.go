package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/wait"
)

const (
	// unusedWait is how long Remove waits for the consumers to end: a consumer declares a deleted queue again.
	unusedWait = 5 * time.Second
	unusedPoll = 50 * time.Millisecond
)

// Remove deletes the queues and the exchange of a prefix, with the messages in them. It is for systems that have been
// shut down for good. A missing name is not an error. The prefix must not be empty: those names belong to a system that
// has the broker for itself. In a cluster all nodes must be there: a queue of reads goes only while its node is.
func Remove(ctx context.Context, config Config) error {
	config, err := config.withDefaults()
	if err == nil && config.Prefix == "" {
		err = errors.New("no prefix")
	}
	if err != nil {
		return fmt.Errorf("bus settings: %w", err)
	}
	s, err := dialAny(ctx, config, config.Name+" removal")
	if err != nil {
		return err
	}
	defer s.close()
	defer context.AfterFunc(ctx, func() { s.kill(ctx.Err()) })()
	all := newNames(config.Prefix)
	queues := all.queues(config)
	for deadline := time.Now().Add(unusedWait); s.consumed(queues) && time.Now().Before(deadline); {
		wait.For(ctx, unusedPoll)
	}
	var errs []error
	for _, q := range queues {
		errs = append(errs, s.aside("delete "+q.name, func(ch *amqp091.Channel) error {
			_, deleteErr := ch.QueueDelete(q.name, false, false, false)
			return deleteErr
		}))
	}
	errs = append(errs, s.aside("delete "+all.sync, func(ch *amqp091.Channel) error { return ch.ExchangeDelete(all.sync, false, false) }))
	return errors.Join(errs...)
}

// consumed reports whether a queue has a consumer. A queue that is missing has none.
func (s *session) consumed(queues []queue) bool {
	for _, q := range queues {
		var found amqp091.Queue
		err := s.aside("look at "+q.name, func(ch *amqp091.Channel) (err error) {
			found, err = ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
			return err
		})
		if err == nil && found.Consumers > 0 {
			return true
		}
	}
	return false
}
