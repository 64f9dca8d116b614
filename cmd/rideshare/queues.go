package main

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/mq/amqp"
)

// queuesCommand is `rideshare queues`.
type queuesCommand struct {
	busSettings
	Prefix string        `default:"" env:"RIDESHARE_PREFIX" help:"Prefix of the names of queues, so that systems can share a broker."`
	Wait   time.Duration `default:"60s" env:"QUEUES_WAIT" help:"How long to wait until every node is reachable and has joined (${default})."`
}

// Run declares the queues and prints their names.
func (q *queuesCommand) Run(ctx context.Context, out *output) error {
	busURL, err := q.bus()
	if err != nil {
		return err
	}
	config := amqp.Config{URL: busURL, Prefix: q.Prefix, Name: "queues"}
	if err = config.Check(); err != nil {
		return usagef("--bus: %v", err)
	}
	if q.Wait <= 0 {
		return usagef("--wait: %v is not more than 0", q.Wait)
	}
	ctx, cancel := context.WithTimeout(ctx, q.Wait)
	defer cancel()
	declared, err := amqp.Declare(ctx, config)
	if err != nil {
		return fmt.Errorf("queues not declared: %w", err)
	}
	for _, name := range declared {
		if _, err = fmt.Fprintln(out.stdout, name); err != nil {
			return err
		}
	}
	return nil
}
