package amqp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// Many concurrent publishes each get their own outcome, even if some messages are returned and others are not.
func TestPublish_ManyInFlight_EachItsOwnOutcome(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	var publishes sync.WaitGroup
	for i := range 2_000 {
		publishes.Go(func() {
			var err, want error
			switch i % 3 {
			case 0:
				err = c.Publish(t.Context(), mq.ReadQ, mq.Message{Body: []byte("x")})
			case 1:
				err, want = c.Reply(t.Context(), "amq.gen-of-nobody", mq.Message{}), mq.ErrUnroutable
			case 2:
				err = c.Broadcast(t.Context(), []byte("x"), nil)
			}
			if !errors.Is(err, want) {
				t.Errorf("publish %d: got error %v, want %v", i, err, want)
			}
		})
	}
	publishes.Wait()
}

// A message arrives with everything it was published with.
func TestPublish_Message_ArrivesWhole(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	for _, want := range []mq.Message{
		{Body: []byte("all"), ID: "7", ReplyTo: "amq.gen-x", TTL: time.Hour, Persistent: true},
		{Body: make([]byte, 300<<10)}, // more than a frame
		{Body: []byte{}},
	} {
		if err := c.Publish(t.Context(), mq.WriteQ, want); err != nil {
			t.Fatalf("publish: got %v, want nil", err)
		}
		h := consume(t, c, mq.WriteQ, 1)
		d := h.next(t, 1)[0]
		if diff := cmp.Diff(want, d.Message()); diff != "" {
			t.Errorf("message is different (-want +got):\n%s", diff)
		}
		ack(t, d)
		_ = h.end() // its context's error
	}
}

// A reply goes to reply queues only: a forged name cannot write to another queue.
func TestReply_ForgedName_IsUnroutable(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	for _, forged := range []string{"", b.queue(mq.WriteQ), "amq.rabbitmq.reply-to"} {
		if err := c.Reply(t.Context(), forged, mq.Message{}); !errors.Is(err, mq.ErrUnroutable) {
			t.Errorf("reply to %q: got %v, want ErrUnroutable", forged, err)
		}
	}
	if got := b.waiting(t, b.queue(mq.WriteQ)); got != 0 {
		t.Errorf("got %d messages in writeQ, want none", got)
	}
}

// A message from outside this system is delivered like any other. Rejected from either work queue it becomes a dead
// letter, and the queue goes on.
func TestReject_ForeignMessage_IsDeadLetterAndQueueGoesOn(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	for i, q := range mq.WorkQueues() {
		b.admin(t, func(ch *amqp091.Channel) error {
			return ch.PublishWithContext(t.Context(), "", b.queue(q), true, false, amqp091.Publishing{
				Expiration: "60000", Type: "?", Headers: amqp091.Table{"x-death": "forged"}, Body: []byte("{"),
			})
		})
		h := consume(t, c, q, 1)
		poison := h.next(t, 1)[0]
		want := mq.Message{Body: []byte("{"), TTL: time.Minute}
		if diff := cmp.Diff(want, poison.Message()); diff != "" {
			t.Errorf("%s: message is different (-want +got):\n%s", q, diff)
		}
		poison.Forget()
		if err := poison.Reject(); err != nil {
			t.Errorf("%s: reject: got %v, want nil", q, err)
		}
		publish(t, c, q, 1)
		ack(t, h.next(t, 1)[0])
		testenv.Eventually(t, patience, func() error {
			if got := b.DeadLetters(t); got != i+1 {
				return fmt.Errorf("%s: got %d dead letters, want %d", q, got, i+1)
			}
			return nil
		})
	}
	for _, letter := range consume(t, c, mq.DeadQ, 3).next(t, 3) {
		if got := string(letter.Message().Body); got != "{" {
			t.Errorf("dead letter: got body %q, want that of the message", got)
		}
		ack(t, letter)
	}
}

// A delivery is settled only once: the broker would answer a second settlement by closing the channel with all other
// deliveries.
func TestAck_Twice_IsAnErrorAndHarmless(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	publish(t, c, mq.WriteQ, 3)
	h := consume(t, c, mq.WriteQ, 2)
	ds := h.next(t, 2)
	ack(t, ds[0])
	for what, again := range map[string]func() error{"ack": ds[0].Ack, "reject": ds[0].Reject} {
		if err := again(); err == nil || errors.Is(err, mq.ErrStale) {
			t.Errorf("second %s: got %v, want an error other than ErrStale", what, err)
		}
	}
	ack(t, ds[1])
	ack(t, h.next(t, 1)[0])
}

// A consumer that is started and stopped many times leaves no channel and no consumer behind.
func TestConsume_EndedManyTimes_LeavesNothing(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "one")
	for _, q := range mq.WorkQueues() {
		for range 20 {
			publish(t, c, q, 2)
			h := consume(t, c, q, 2)
			ds := h.next(t, 2)
			ack(t, ds[0])
			if err := h.end(); !errors.Is(err, context.Canceled) {
				t.Fatalf("consume: got %v, want its context's error", err)
			}
			ack(t, ds[1])
		}
		testenv.Eventually(t, patience, func() error {
			consumers := 0
			b.admin(t, func(ch *amqp091.Channel) error {
				state, err := ch.QueueDeclarePassive(b.queue(q), true, false, false, false, nil)
				consumers = state.Consumers
				return err
			})
			if consumers != 0 {
				return fmt.Errorf("%s: got %d consumers left, want 0", q, consumers)
			}
			return nil
		})
		if got := b.waiting(t, b.queue(q)); got != 0 {
			t.Errorf("%s: got %d messages left, want 0", q, got)
		}
	}
}

// BenchmarkPublish measures how many publishes per second one connection can have confirmed, with many callers.
func BenchmarkPublish(b *testing.B) {
	bus := newBus(b, nil, testenv.RabbitMQ(b), mqtest.Limits{MaxReady: 10_000_000})
	c := bus.connected(b, "one")
	body := make([]byte, 4096)
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := c.Broadcast(b.Context(), body, nil); err != nil {
				b.Error(err)
			}
		}
	})
}

// A large message that the broker takes slowly does not delay small ones, to any queue.
func TestPublish_LargeMessageIsSlow_SmallOnesPass(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	config, n := b.config("one")
	n.hold, n.held = make(chan struct{}), "largelarge"
	c := b.open(t, config, n)
	defer closeInTime(t, c)
	open := sync.OnceFunc(func() { close(n.hold) })
	defer open()
	wholly(t, c)
	large := make(chan error, 1)
	running(t, func(ctx context.Context) error {
		large <- c.Publish(ctx, mq.WriteQ, mq.Message{Body: bytes.Repeat([]byte("large"), 1<<20)})
		return nil
	})
	testenv.Eventually(t, patience, n.holding)
	for _, q := range []mq.Queue{mq.ReadQ, mq.WriteQ} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := c.Publish(ctx, q, mq.Message{Body: []byte("small")}); err != nil {
			t.Errorf("publish a small message to %s: got %v, want nil", q, err)
		}
		cancel()
	}
	open()
	if err := receive(t, large); err != nil {
		t.Errorf("publish the large message: got %v, want nil", err)
	}
}

// Without its connection for large messages a Conn is ready: small messages pass, and only a large one is refused.
func TestReady_NoConnectionForLargeMessages_SmallOnesPass(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	config, n := b.config("one")
	n.hold, n.held = make(chan struct{}), "one bulk" // the name that this connection tells the broker
	c := b.open(t, config, n)
	defer closeInTime(t, c)
	defer close(n.hold)
	testenv.Eventually(t, patience, n.holding)
	testenv.Eventually(t, patience, c.Ready)
	publish(t, c, mq.ReadQ, 1)
	publish(t, c, mq.WriteQ, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Publish(ctx, mq.WriteQ, mq.Message{Body: make([]byte, 3<<20)}); !errors.Is(err, mq.ErrUnavailable) {
		t.Errorf("publish a large message: got %v, want %v", err, mq.ErrUnavailable)
	}
	if s := c.State(); s.Connected {
		t.Error("the state does not tell that a connection is missing")
	}
}

// Consume returns at the end of its context although the broker does not answer it, and its connection stays.
func TestConsume_NoAnswer_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	config, n := b.config("early")
	n.hold, n.held = make(chan struct{}), "."+b.queue(mq.WriteQ) // the end of the consumer's name
	c := b.open(t, config, n)
	defer closeInTime(t, c)
	defer close(n.hold)
	wholly(t, c)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running(t, func(context.Context) error {
		ended <- c.Consume(ctx, mq.ConsumeConfig{Queue: mq.WriteQ, Prefetch: 1}, func(mq.Delivery) {})
		return nil
	})
	testenv.Eventually(t, patience, n.holding)
	end()
	if err := receive(t, ended); !errors.Is(err, context.Canceled) || c.State().Lost != 0 {
		t.Errorf("got %v and the state %+v, want the end of the context and no connection lost", err, c.State())
	}
}

// A connection that cannot publish yet takes no messages, because it could not answer them: another consumer gets
// them.
func TestConsume_CannotPublishYet_TakesNothing(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	config, n := b.config("mute")
	n.hold, n.held = make(chan struct{}), " publisher" // the name of the connection, which it sends first
	var log logBuffer
	config.Log = log.logger()
	mute := b.open(t, config, n)
	defer closeInTime(t, mute)
	open := sync.OnceFunc(func() { close(n.hold) })
	defer open()
	testenv.Eventually(t, patience, func() error {
		if log.count("bus connected", "bus consumer") == 0 {
			return errors.New("the connection that consumes is not up")
		}
		return nil
	})
	all := consume(t, mute, mq.ReadQ, 100)
	other := b.connected(t, "other")
	able := consume(t, other, mq.ReadQ, 100)
	publish(t, other, mq.ReadQ, 50)
	able.next(t, 50)
	if taken := len(all.deliveries); taken > 0 {
		t.Errorf("%d messages were taken by a consumer that cannot answer", taken)
	}
	open()
	testenv.Eventually(t, patience, mute.Ready)
	_ = able.end() // its context's error
	publish(t, other, mq.ReadQ, 50)
	all.next(t, 50)
}
