package amqp_test

import (
	"testing"

	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// RabbitMQ keeps every promise of mq.Conn. The test has its own broker, because an alarm affects the whole broker.
func TestConformance(t *testing.T) {
	service := testenv.StartRabbitMQ(t)
	// How long the broker waits before it sends a refused dead letter again; 3 min by default.
	service.Ctl(t, "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 500).")
	mqtest.Run(t, mqtest.Features{Durable: true, Patience: patience}, func(tb testing.TB, l mqtest.Limits) mqtest.Bus {
		tb.Helper()
		return newBus(tb, service, service.URL, l)
	})
}
