package amqp

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/wait"
)

// Declare creates the shared queues and the exchange at every node of the broker, for all parts, and returns the names.
// It waits until all nodes have joined one cluster, or ctx ends: a quorum queue gets its members from the nodes that are
// there. A queue of reads is declared through its node, and stays there. What exists is left as it is.
func Declare(ctx context.Context, config Config) ([]string, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bus settings: %w", err)
	}
	pause := wait.Backoff{First: roundPause, Cap: roundPause}
	var last error // the last failure before ctx ended
	for {
		declared, failed := declareAll(ctx, config)
		if failed == nil {
			return declared, nil
		}
		if last == nil || ctx.Err() == nil {
			last = failed
		}
		refusal, refused := errors.AsType[*amqp091.Error](failed)
		if refused && (refusal.Code == amqp091.PreconditionFailed || refusal.Code == amqp091.AccessRefused) || !pause.Wait(ctx) {
			return nil, last
		}
	}
}

// declareAll is one try of Declare.
func declareAll(ctx context.Context, c Config) (declared []string, err error) {
	n := newNames(c.Prefix)
	var sessions []*session
	defer func() {
		for _, s := range sessions {
			s.close()
		}
	}()
	for _, at := range c.nodes {
		s, err := dialSession(ctx, c, at, c.Name+" declaration")
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", at.host, err)
		}
		sessions = append(sessions, s)
		defer context.AfterFunc(ctx, func() { s.kill(ctx.Err()) })()
	}
	create := func(s *session, queues []queue) error {
		for _, q := range queues {
			declared = append(declared, q.name)
		}
		err := s.aside("declare queues", func(ch *amqp091.Channel) error { return n.declare(ch, queues) })
		if err != nil {
			return fmt.Errorf("node %s: %w", s.at.host, err)
		}
		return nil
	}
	for _, s := range sessions {
		if err := create(s, n.reads(c, s.at)); err != nil {
			return nil, err
		}
	}
	for _, s := range sessions {
		if err := s.joined(n, c); err != nil {
			return nil, err
		}
	}
	if err := create(sessions[0], n.quorum(c)); err != nil {
		return nil, err
	}
	return append(declared, n.sync), nil
}

// joined returns nil if the node finds the queue of each node.
func (s *session) joined(n names, c Config) error {
	for _, name := range n.readQueues(c) {
		err := s.aside("look at "+name, func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("node %s does not find %s; have all nodes joined one cluster? %w", s.at.host, name, err)
		}
	}
	return nil
}
