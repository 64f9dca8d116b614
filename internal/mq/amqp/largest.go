package amqp

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/logkey"
)

// largestTimeout bounds one attempt of CheckLargest: enough for a message of 96 MiB at 25 Mbit/s.
const largestTimeout = 30 * time.Second

// CheckLargest returns nil once the broker has accepted a message of size bytes. If the broker refuses it, the error
// names the broker's setting. RabbitMQ refuses a message above max_message_size by closing the channel, with every
// other message on it, so the system must know this before the first request. CheckLargest waits for the broker until
// ctx ends, and then returns ctx's error.
//
// The message reaches no queue, because the broker checks the size first. The check uses its own connection. With 96
// MiB it takes about 0.4 s, and about twice the message's size of the broker's memory. If the limit is lowered later,
// the first message above it fails.
func CheckLargest(ctx context.Context, config Config, size int) error {
	config, err := config.withDefaults()
	if err != nil {
		return fmt.Errorf("bus settings: %w", err)
	}
	backoff := newBackoff()
	for {
		refusal, err := tryLargest(ctx, config, size)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case refusal != nil:
			return fmt.Errorf("the broker refuses a message of %d bytes: set RabbitMQ's max_message_size to that or more (%s)", size, refusal.Reason)
		case err == nil:
			return nil
		}
		config.Log.DebugContext(ctx, "largest message not checked, trying again", logkey.Error, err)
		backoff.Wait(ctx)
	}
}

// tryLargest publishes an unroutable message of size bytes. It returns the broker's refusal of the size, or an error
// if the result is unknown.
func tryLargest(ctx context.Context, config Config, size int) (*amqp091.Error, error) {
	s, err := dialAny(ctx, config, config.Name+" size check")
	if err != nil {
		return nil, err
	}
	defer s.close()
	defer context.AfterFunc(ctx, func() { s.kill(ctx.Err()) })()
	defer s.within(largestTimeout, "largest message")()
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err = ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("switch confirms on: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	confirm, err := ch.PublishWithDeferredConfirm("", config.Prefix+"no-queue", false, false, amqp091.Publishing{Body: make([]byte, size)})
	if err == nil {
		<-confirm.Done()
		if confirm.Acked() {
			return nil, nil //nolint:nilnil // no refusal and no error: it was taken.
		}
		err = errOver
	}
	if why := <-closed; why != nil && (why.Code == amqp091.PreconditionFailed || why.Code == amqp091.ContentTooLarge) {
		return why, nil
	}
	return nil, err
}
