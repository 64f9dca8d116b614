package mqtest

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/conformance"
)

// suite is the state of one test.
type suite struct {
	*conformance.Suite
	features Features
	bus      Bus
}

// dial returns a connection that is up, and closed after the test.
func (s *suite) dial(name string) mq.Conn {
	s.Helper()
	c := s.bus.Dial(s.T, name)
	s.Cleanup(func() { _ = c.Close() })
	s.Eventually(func() error {
		if st := c.State(); !st.Connected { // A part that comes up later would declare queues that the test has deleted.
			return fmt.Errorf("state: got %+v, want connected", st)
		}
		return c.Ready()
	})
	return c
}

// publish publishes messages with these bodies in order. All must be confirmed.
func (s *suite) publish(c mq.Conn, q mq.Queue, bodies ...string) {
	s.Helper()
	for _, body := range bodies {
		if err := c.Publish(s.Context(), q, mq.Message{Body: []byte(body), Persistent: true}); err != nil {
			s.Fatalf("publish %s: got %v, want it confirmed", body, err)
		}
	}
}

// running is a call that lasts until its context ends.
type running struct {
	s      *suite
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
}

// start runs f until the test ends, or stop is called.
func (s *suite) start(f func(ctx context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{s: s, cancel: cancel, ended: make(chan struct{})}
	go func() { // ended by the cleanup
		defer close(r.ended)
		r.err = f(ctx)
	}()
	s.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

// wait returns f's error, which must come in time.
func (r *running) wait() error {
	r.s.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(r.s.Patience):
		r.s.Fatal("the call did not return")
		return nil
	}
}

// stop ends f and returns its error.
func (r *running) stop() error {
	r.s.Helper()
	r.cancel()
	return r.wait()
}

// consumer is a Consume that stores what it receives.
type consumer struct {
	*running
	got chan mq.Delivery
}

// consume starts a consumer that neither acknowledges nor blocks.
func (s *suite) consume(c mq.Conn, q mq.Queue, prefetch int) *consumer {
	k := &consumer{got: make(chan mq.Delivery, 20_000)}
	k.running = s.start(func(ctx context.Context) error {
		return c.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: prefetch}, func(d mq.Delivery) { k.got <- d })
	})
	return k
}

// next returns the next delivery, whose body must be want.
func (k *consumer) next(want string) mq.Delivery {
	k.s.Helper()
	select {
	case d := <-k.got:
		if got := string(d.Message().Body); got != want {
			k.s.Fatalf("got message %q, want %q", got, want)
		}
		return d
	case <-time.After(k.s.Patience):
		k.s.Fatalf("message %q was not delivered", want)
		return nil
	}
}

// acked receives and acknowledges messages with these bodies, in this order.
func (k *consumer) acked(bodies ...string) {
	k.s.Helper()
	for _, want := range bodies {
		k.s.ack(k.next(want))
	}
}

// nothing checks that no delivery comes.
func (k *consumer) nothing() {
	k.s.Helper()
	select {
	case d := <-k.got:
		k.s.Fatalf("got message %q, want none", d.Message().Body)
	case <-time.After(k.s.features.Quiet):
	}
}

func (s *suite) ack(d mq.Delivery) {
	s.Helper()
	if err := d.Ack(); err != nil {
		s.Fatalf("ack %q: got %v, want nil", d.Message().Body, err)
	}
}

// numbered returns n bodies m0, m1 and so on.
func numbered(n int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("m%d", i)
	}
	return bodies
}
