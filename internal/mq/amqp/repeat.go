package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/wait"
)

const (
	// connectWait is how long a publish waits for a connection to another node.
	connectWait = 2 * time.Second
	// refusedPause is the pause before a message that writeQ refused is sent again: without a leader, writeQ refuses too.
	refusedPause = 200 * time.Millisecond
	// refusedAge is the age at which a connection on which writeQ refuses is replaced: a channel that was opened while
	// writeQ had no leader is refused for ever. An election takes about as long.
	refusedAge = 500 * time.Millisecond
)

// errRefuses is the reason for the end of a connection on which writeQ refuses messages.
var errRefuses = errors.New("writeQ refuses messages: it is full, or the channel has no leader")

// throughNodes publishes in a cluster. If the connection is lost, or the broker does not confirm, it repeats the message
// over the next connection, which is to the next node: as often as there are nodes. The receivers of all messages
// recognise a message that comes twice. But a refusal of the first try is no answer to the next try, so the publisher of
// a write must know of it: again is mq.Message.Again.
//
// A nil error means that one of the tries was confirmed. After any other end, one try of unknown outcome makes the
// whole outcome unknown.
func (c *Conn) throughNodes(ctx context.Context, by *link[*publisher], to destination, message amqp091.Publishing, again func() bool) error {
	var unknown, err error
	var used *publisher
	for range c.config.nodes {
		if unknown != nil && again != nil && !again() {
			break
		}
		var p *publisher
		if p, err = another(ctx, by, used); err != nil {
			break
		}
		if err = c.through(ctx, p, to, message); err == nil {
			return nil
		}
		if errors.Is(err, mq.ErrRefused) && to.queue == mq.WriteQ {
			// A quorum queue that refused the message may have it all the same.
			err = mq.ErrMaybeRefused
			used = nil
			if time.Since(p.opened) >= refusedAge {
				p.kill(errRefuses)
				used = p
			}
			wait.For(ctx, refusedPause)
		} else if used = p; !p.lost() {
			break
		}
		if errors.Is(err, mq.ErrUnconfirmed) {
			unknown = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if unknown != nil {
		return unknown
	}
	return err
}

// lost reports whether nothing can be published on p any more.
func (p *publisher) lost() bool { return p.reason() != nil || p.ch.IsClosed() }

// another returns a connection other than used. If there is none, it waits for one.
func another(ctx context.Context, by *link[*publisher], used *publisher) (*publisher, error) {
	if p, _, err := by.get(); err == nil && p != used || errors.Is(err, mq.ErrClosed) {
		return p, err
	}
	waiting, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	p, err := by.next(waiting, used, nil)
	switch {
	case err == nil || errors.Is(err, mq.ErrClosed):
		return p, err
	case ctx.Err() != nil:
		return nil, notSent(ctx)
	}
	if _, _, err = by.get(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("connection lost: %w", mq.ErrUnavailable)
}

// forReply returns the connection after used, on which a reply was certainly not sent. The reply's request is acknowledged
// next, so no other worker would answer it. forReply waits for at most connectWait, or the reply's TTL if it has one.
func forReply(ctx context.Context, by *link[*publisher], used *publisher, ttl time.Duration) (*publisher, error) {
	ctx, cancel := context.WithTimeout(ctx, min(connectWait, cmp.Or(max(ttl, 0), connectWait)))
	defer cancel()
	return another(ctx, by, used)
}

// through publishes over one connection. Reads go to the queue at its node; if the broker returns them, to the queue at
// the next one.
func (c *Conn) through(ctx context.Context, p *publisher, to destination, message amqp091.Publishing) error {
	err := p.publish(ctx, &publication{key: c.name(to, p.at), message: message, mandatory: true, elsewhere: to.reply != ""})
	if !eachNode(to.queue) {
		return err
	}
	for _, at := range c.config.nodes {
		if !errors.Is(err, mq.ErrUnroutable) {
			break
		}
		if at != p.at {
			err = p.publish(ctx, &publication{key: c.name(to, at), message: message, mandatory: true})
		}
	}
	return err
}
