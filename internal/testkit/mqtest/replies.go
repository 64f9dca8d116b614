package mqtest

import (
	"context"
	"errors"
	"fmt"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/conformance"
)

// replyTests are about reply queues and mq.Caller.
func replyTests() []test {
	return []test{
		{name: "ReplyReachesItsQueueOnly", run: testReply},
		{name: "ReplyToTheVanishedIsUnroutable", run: testReplyVanished},
		{name: "ReplyQueueGetsAnotherName", single: true, run: testReplyRenamed},
		{name: "CallerGetsEveryPart", run: testCall},
		{name: "CallerManyAtOnce", run: testManyCalls},
		{name: "CallerDeadline", run: testCallDeadline},
		{name: "CallerDropsLateReply", run: testLateReply},
		{name: "CallerLosesReplyQueue", run: testCallLost},
	}
}

// replyQueue is a Replies that stores what it receives.
type replyQueue struct {
	*running
	names chan string // empty when lost
	got   chan mq.Message
}

func (s *suite) replies(c mq.Conn) *replyQueue {
	q := &replyQueue{names: make(chan string, 100), got: make(chan mq.Message, 100)}
	q.running = s.start(func(ctx context.Context) error {
		return c.Replies(ctx, func(name string) { q.names <- name }, func(m mq.Message) { q.got <- m })
	})
	return q
}

// A reply reaches the queue that it names, with its id, and no other.
func testReply(s *suite) {
	c := s.dial("worker")
	a, b := s.replies(s.dial("a")), s.replies(s.dial("b"))
	nameA, nameB := conformance.Receive(s.Suite, "name", a.names), conformance.Receive(s.Suite, "name", b.names)
	if nameA == nameB {
		s.Fatalf("two reply queues have the name %s", nameA)
	}
	if err := c.Reply(s.Context(), nameA, mq.Message{Body: []byte("answer"), ID: "7"}); err != nil {
		s.Fatalf("reply: got %v, want nil", err)
	}
	if got := conformance.Receive(s.Suite, "reply", a.got); got.ID != "7" || string(got.Body) != "answer" {
		s.Errorf("got reply %q with id %q, want answer with id 7", got.Body, got.ID)
	}
	if len(b.got) > 0 {
		s.Error("the reply reached another queue too")
	}
}

// A reply to a requester that is gone is returned.
func testReplyVanished(s *suite) {
	c, leaving := s.dial("worker"), s.dial("leaving")
	q := s.replies(c)
	name := conformance.Receive(s.Suite, "name", q.names)
	s.WantError("Replies", q.stop(), context.Canceled)
	if got := conformance.Receive(s.Suite, "loss", q.names); got != "" {
		s.Errorf("when Replies ended: got name %q, want the empty one", got)
	}
	s.vanished(c, name)

	name = conformance.Receive(s.Suite, "name", s.replies(leaving).names)
	s.bus.Crash(s.T, leaving)
	s.vanished(c, name)
	s.vanished(c, "never-was-there")
}

// vanished waits until a reply to that name is returned: a broker needs time to delete the queue.
func (s *suite) vanished(c mq.Conn, name string) {
	s.Helper()
	s.Eventually(func() error {
		if err := c.Reply(s.Context(), name, mq.Message{}); !errors.Is(err, mq.ErrUnroutable) {
			return fmt.Errorf("reply to %s: got %w, want %w", name, err, mq.ErrUnroutable)
		}
		return nil
	})
}

// After a lost connection there is a new reply queue with another name, so that late replies cannot be mistaken for
// new ones.
func testReplyRenamed(s *suite) {
	c := s.dial("one")
	q := s.replies(c)
	old := conformance.Receive(s.Suite, "name", q.names)
	s.bus.Disconnect(s.T)
	if got := conformance.Receive(s.Suite, "loss", q.names); got != "" {
		s.Fatalf("after the loss: got name %q, want the empty one first", got)
	}
	name := conformance.Receive(s.Suite, "new name", q.names)
	if name == old || name == "" {
		s.Fatalf("after the loss: got name %q, want another than %q", name, old)
	}
	s.Eventually(func() error { return c.Reply(s.Context(), name, mq.Message{Body: []byte("hello")}) })
	if got := conformance.Receive(s.Suite, "reply", q.got); string(got.Body) != "hello" {
		s.Errorf("got reply %q, want hello", got.Body)
	}
}

// caller returns a Caller that runs until the test is over.
func (s *suite) caller(c mq.Conn) *mq.Caller {
	caller := mq.NewCaller(c)
	s.start(caller.Run)
	return caller
}

// serve answers each request of readQ with each of these parts after its body.
func (s *suite) serve(c mq.Conn, parts ...string) {
	s.start(func(ctx context.Context) error {
		return c.Consume(ctx, mq.ConsumeConfig{Queue: mq.ReadQ, Prefetch: 10}, func(d mq.Delivery) {
			m := d.Message()
			for _, part := range parts {
				_ = c.Reply(ctx, m.ReplyTo, mq.Message{Body: []byte(string(m.Body) + part), ID: m.ID})
			}
			_ = d.Ack()
		})
	})
}

// A call receives the parts of its answer in order, and none after the last.
func testCall(s *suite) {
	s.serve(s.dial("worker"), " 1", " 2", " 3", " late")
	caller := s.caller(s.dial("caller"))
	ctx, cancel := context.WithTimeout(s.Context(), s.Patience)
	defer cancel()
	for _, request := range []string{"a", "b"} {
		var got []string
		err := caller.Call(ctx, mq.ReadQ, []byte(request), func(body []byte, _ bool) bool {
			got = append(got, string(body))
			return len(got) == 3
		})
		if want := fmt.Sprint([]string{request + " 1", request + " 2", request + " 3"}); err != nil || fmt.Sprint(got) != want {
			s.Errorf("call %s: got %v and error %v, want %v", request, got, err, want)
		}
	}
}

// Each of many calls gets its own answer.
func testManyCalls(s *suite) {
	s.serve(s.dial("worker"), "!")
	s.serve(s.dial("worker"), "!")
	caller := s.caller(s.dial("caller"))
	ctx, cancel := context.WithTimeout(s.Context(), s.Patience)
	defer cancel()
	var calls []*running
	for _, request := range numbered(100) {
		calls = append(calls, s.start(func(context.Context) error {
			var got string
			err := caller.Call(ctx, mq.ReadQ, []byte(request), func(body []byte, _ bool) bool {
				got = string(body)
				return true
			})
			if err == nil && got != request+"!" {
				err = fmt.Errorf("call %s: got %s", request, got)
			}
			return err
		}))
	}
	for _, call := range calls {
		if err := call.wait(); err != nil {
			s.Error(err)
		}
	}
}

// A call without an answer ends at its deadline, and so does its message.
func testCallDeadline(s *suite) {
	c := s.dial("one")
	caller := s.caller(c)
	ctx, cancel := context.WithTimeout(s.Context(), s.features.Quiet)
	defer cancel()
	err := caller.Call(ctx, mq.ReadQ, []byte("anybody?"), func([]byte, bool) bool { return true })
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("call: got error %v, want %v", err, context.DeadlineExceeded)
	}
	s.publish(c, mq.ReadQ, "behind") // Once it is confirmed, the broker has the call's message too,
	s.Pass(s.features.Quiet)         // whose time runs from then.
	k := s.consume(c, mq.ReadQ, 1)
	k.acked("behind")
	k.nothing()
}

// The answer to a call that has ended is dropped, and not mistaken for the answer to the next call.
func testLateReply(s *suite) {
	c := s.dial("worker")
	k := s.consume(c, mq.ReadQ, 5)
	caller := s.caller(s.dial("caller"))
	abandoned := s.start(func(ctx context.Context) error {
		return caller.Call(ctx, mq.ReadQ, []byte("first"), func([]byte, bool) bool {
			s.Error("the abandoned call got a reply")
			return true
		})
	})
	first := k.next("first").Message()
	s.WantError("abandoned call", abandoned.stop(), context.Canceled)
	var got string
	next := s.start(func(ctx context.Context) error {
		return caller.Call(ctx, mq.ReadQ, []byte("second"), func(body []byte, _ bool) bool {
			got = string(body)
			return true
		})
	})
	second := k.next("second").Message()
	for _, m := range []mq.Message{first, second} {
		if err := c.Reply(s.Context(), m.ReplyTo, mq.Message{Body: m.Body, ID: m.ID}); err != nil {
			s.Fatalf("reply: got %v, want nil", err)
		}
	}
	if err := next.wait(); err != nil || got != "second" {
		s.Errorf("second call: got %q and error %v, want its own answer", got, err)
	}
}

// A call whose answer can no longer arrive ends immediately, with an unknown outcome.
func testCallLost(s *suite) {
	k := s.consume(s.dial("worker"), mq.ReadQ, 1)
	caller := s.caller(s.dial("caller"))
	call := s.start(func(ctx context.Context) error {
		return caller.Call(ctx, mq.ReadQ, []byte("m0"), func([]byte, bool) bool { return true })
	})
	k.next("m0")
	s.bus.Disconnect(s.T)
	s.WantError("call", call.wait(), mq.ErrUnconfirmed)
}
