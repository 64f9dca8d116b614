package inproc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/mq/inproc"
)

// consume starts a consumer that stores its deliveries, until the test ends.
func consume(t *testing.T, c *inproc.Conn, q mq.Queue, prefetch int) <-chan mq.Delivery {
	t.Helper()
	got := make(chan mq.Delivery, 100)
	background(t, func(ctx context.Context) error {
		return c.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: prefetch}, func(d mq.Delivery) { got <- d })
	})
	return got
}

// background runs f until the test ends.
func background(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, mq.ErrClosed) {
			t.Errorf("ended with %v, want the context's error or %v", err, mq.ErrClosed)
		}
	})
}

func publish(t *testing.T, c *inproc.Conn, m mq.Message) {
	t.Helper()
	if err := c.Publish(t.Context(), mq.ReadQ, m); err != nil {
		t.Fatalf("publish %s: got %v, want nil", m.Body, err)
	}
}

// bodies takes what a consumer has received so far.
func bodies(got <-chan mq.Delivery) []string {
	synctest.Wait()
	var list []string
	for len(got) > 0 {
		list = append(list, string((<-got).Message().Body))
	}
	return list
}

// Stats returns the waiting messages, the unsettled ones and the consumers; expired messages do not count.
func TestBroker_Stats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		if got := b.Stats(mq.ReadQ); got != (inproc.Stats{}) {
			t.Errorf("before anybody came: got %+v, want zero", got)
		}
		c := b.Dial("one")
		publish(t, c, mq.Message{Body: []byte("short"), TTL: time.Second})
		publish(t, c, mq.Message{Body: []byte("m0")})
		publish(t, c, mq.Message{Body: []byte("m1")})
		if got, want := b.Stats(mq.ReadQ), (inproc.Stats{Ready: 3}); got != want {
			t.Errorf("published: got %+v, want %+v", got, want)
		}
		advance(2 * time.Second)
		got := consume(t, c, mq.ReadQ, 1)
		if list := bodies(got); !slices.Equal(list, []string{"m0"}) {
			t.Errorf("consumed: got %v, want m0", list)
		}
		if got, want := b.Stats(mq.ReadQ), (inproc.Stats{Ready: 1, Unacked: 1, Consumers: 1}); got != want {
			t.Errorf("consumed: got %+v, want %+v", got, want)
		}
	})
}

// A broker that stops keeps only persistent messages, and all connections come back when it starts.
func TestBroker_Stop_KeepsPersistentOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		c := b.Dial("one")
		publish(t, c, mq.Message{Body: []byte("transient")})
		publish(t, c, mq.Message{Body: []byte("persistent"), Persistent: true})
		b.Stop()
		if err := c.Publish(t.Context(), mq.ReadQ, mq.Message{}); !errors.Is(err, mq.ErrUnavailable) {
			t.Errorf("publish while stopped: got %v, want %v", err, mq.ErrUnavailable)
		}
		got := consume(t, b.Dial("late"), mq.ReadQ, 5)
		if list := bodies(got); len(list) > 0 {
			t.Errorf("while stopped: got %v, want nothing", list)
		}
		b.Start()
		if list := bodies(got); !slices.Equal(list, []string{"persistent"}) {
			t.Errorf("after the start: got %v, want the persistent message only", list)
		}
	})
}

// A partitioned connection cannot be used until it is healed; its deliveries go to others during that time.
func TestConn_Partition_OthersTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		c, away := b.Dial("one"), b.Dial("away")
		gotAway := consume(t, away, mq.WriteQ, 1)
		synctest.Wait()
		got := consume(t, c, mq.WriteQ, 5)
		send := func(body string) {
			if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte(body)}); err != nil {
				t.Fatalf("publish: %v", err)
			}
		}
		send("m0")
		if list := bodies(gotAway); !slices.Equal(list, []string{"m0"}) {
			t.Fatalf("first consumer: got %v, want m0", list)
		}
		away.Partition()
		if err := away.Ready(); !errors.Is(err, mq.ErrUnavailable) {
			t.Errorf("Ready while partitioned: got %v, want %v", err, mq.ErrUnavailable)
		}
		if list := bodies(got); !slices.Equal(list, []string{"m0"}) {
			t.Errorf("second consumer: got %v, want m0 again", list)
		}
		away.Heal()
		if err := away.Ready(); err != nil {
			t.Errorf("Ready after healing: got %v, want nil", err)
		}
		send("m1")
		if list := bodies(gotAway); len(list) > 0 {
			t.Errorf("the one that came back: got %v, want nothing, as it comes last now", list)
		}
	})
}

// Disconnect of one connection leaves the others alone.
func TestConn_Disconnect_OnlyThatOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		dropped, other := b.Dial("dropped"), b.Dial("other")
		gotDropped, gotOther := consume(t, dropped, mq.ReadQ, 1), consume(t, other, mq.WriteQ, 1)
		for _, q := range mq.WorkQueues() {
			if err := other.Publish(t.Context(), q, mq.Message{Body: []byte(q)}); err != nil {
				t.Fatalf("publish: %v", err)
			}
		}
		synctest.Wait()
		stale, good := <-gotDropped, <-gotOther
		dropped.Disconnect()
		if err := stale.Ack(); !errors.Is(err, mq.ErrStale) {
			t.Errorf("ack over the dropped connection: got %v, want %v", err, mq.ErrStale)
		}
		if err := good.Ack(); err != nil {
			t.Errorf("ack over the other: got %v, want nil", err)
		}
	})
}

// A second acknowledgement returns an error and acknowledges nothing else.
func TestDelivery_Ack_TwiceIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		c := b.Dial("one")
		got := consume(t, c, mq.ReadQ, 2)
		publish(t, c, mq.Message{})
		publish(t, c, mq.Message{})
		first := <-got
		if err := first.Ack(); err != nil {
			t.Errorf("first ack: got %v, want nil", err)
		}
		if err := first.Ack(); err == nil || errors.Is(err, mq.ErrStale) {
			t.Errorf("second ack: got %v, want an error of its own", err)
		}
		if got := b.Stats(mq.ReadQ).Unacked; got != 1 {
			t.Errorf("got %d unacknowledged, want 1", got)
		}
	})
}

// Dead letters keep the whole message and where it came from.
func TestBroker_DeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		c := b.Dial("one")
		got := consume(t, c, mq.ReadQ, 1)
		publish(t, c, mq.Message{Body: []byte("poison"), ID: "7"})
		if err := (<-got).Reject(); err != nil {
			t.Fatalf("reject: got %v, want nil", err)
		}
		letters := b.DeadLetters()
		if len(letters) != 1 || letters[0].Queue != mq.ReadQ || letters[0].Message.ID != "7" || string(letters[0].Message.Body) != "poison" {
			t.Errorf("got %+v, want the rejected message from readQ", letters)
		}
	})
}

// A test can lose, duplicate and reorder broadcasts for one subscriber only.
func TestBroker_SetSyncFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		heard := map[string]chan string{"victim": make(chan string, 10), "other": make(chan string, 10)}
		for name, to := range heard {
			c := b.Dial(name)
			background(t, func(ctx context.Context) error {
				return c.Subscribe(ctx, mq.Subscriber{Gap: func() {}, Entry: func(body []byte) { to <- string(body) }})
			})
		}
		synctest.Wait()
		var late []byte
		b.SetSyncFault(func(subscriber string, body []byte) [][]byte {
			switch {
			case subscriber != "victim":
				return [][]byte{body}
			case string(body) == "lost":
				return nil
			case string(body) == "twice":
				return [][]byte{body, body}
			case string(body) == "late":
				late = body
				return nil
			default:
				return [][]byte{body, late}
			}
		})
		c := b.Dial("master")
		sent := []string{"lost", "twice", "late", "on time"}
		for _, body := range sent {
			if err := c.Broadcast(t.Context(), []byte(body), nil); err != nil {
				t.Fatalf("broadcast: %v", err)
			}
		}
		synctest.Wait()
		want := map[string][]string{"victim": {"twice", "twice", "on time", "late"}, "other": sent}
		for name, from := range heard {
			close(from)
			if got := slices.Collect(chanSeq(from)); !slices.Equal(got, want[name]) {
				t.Errorf("%s heard %v, want %v", name, got, want[name])
			}
		}
	})
}

// After a subscriber has unsubscribed, nothing is kept for it.
func TestConn_Subscribe_EndLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inproc.NewBroker(inproc.Config{})
		c := b.Dial("gone")
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := mq.Subscriber{Gap: cancel, Entry: func([]byte) {}}
		if err := c.Subscribe(ctx, cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("subscribe: got %v, want %v", err, context.Canceled)
		}
		b.SetSyncFault(func(subscriber string, _ []byte) [][]byte {
			t.Errorf("a broadcast is kept for %s", subscriber)
			return nil
		})
		if err := c.Broadcast(t.Context(), []byte("entry"), nil); err != nil {
			t.Errorf("broadcast: got %v, want nil", err)
		}
	})
}

func chanSeq(c <-chan string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// A lost confirm is reported as an unknown outcome, although the message is there.
func TestBroker_SetConfirmLost(t *testing.T) {
	t.Parallel()
	b := inproc.NewBroker(inproc.Config{})
	c := b.Dial("one")
	b.SetConfirmLost(func(publisher string, q mq.Queue) bool { return publisher == "one" && q == mq.ReadQ })
	if err := c.Publish(t.Context(), mq.ReadQ, mq.Message{}); !errors.Is(err, mq.ErrUnconfirmed) {
		t.Errorf("publish: got %v, want %v", err, mq.ErrUnconfirmed)
	}
	if got := b.Stats(mq.ReadQ).Ready; got != 1 {
		t.Errorf("got %d messages, want 1", got)
	}
	if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{}); err != nil {
		t.Errorf("publish to the other queue: got %v, want nil", err)
	}
}

// advance moves the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }
