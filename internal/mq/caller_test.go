package mq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/mq"
)

// fakeConn fakes the two methods of mq.Conn that a Caller needs, and Ready.
type fakeConn struct {
	mq.Conn
	publish  func(m mq.Message) error
	notReady error

	mu     sync.Mutex
	ready  func(name string)
	handle func(mq.Message)
}

func (c *fakeConn) Publish(_ context.Context, _ mq.Queue, m mq.Message) error { return c.publish(m) }
func (c *fakeConn) Ready() error                                              { return c.notReady }

func (c *fakeConn) Replies(ctx context.Context, ready func(string), handle func(mq.Message)) error {
	c.mu.Lock()
	c.ready, c.handle = ready, handle
	c.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// startCaller returns a Caller on conn, without a reply queue yet, that runs until the test ends.
func startCaller(t *testing.T, conn *fakeConn) *mq.Caller {
	t.Helper()
	caller := mq.NewCaller(conn)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- caller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v, want %v", err, context.Canceled)
		}
	})
	synctest.Wait()
	return caller
}

func last([]byte, bool) bool { return true }

// The request carries the reply queue, a unique id, the remaining time, its headers and, on writeQ only, persistence.
func TestCaller_Call_Request(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent []mq.Message
		conn := &fakeConn{}
		conn.publish = func(m mq.Message) error {
			sent = append(sent, m)
			conn.handle(mq.Message{ID: m.ID})
			return nil
		}
		caller := startCaller(t, conn)
		conn.ready("mine")
		ctx, cancel := context.WithTimeout(mq.WithHeaders(t.Context(), map[string]string{"a": "b"}), time.Minute)
		defer cancel()
		for _, q := range mq.WorkQueues() {
			if err := caller.Call(ctx, q, []byte("body"), last); err != nil {
				t.Fatalf("call: got %v, want nil", err)
			}
		}
		read, linear, write := sent[0], sent[1], sent[2]
		if read.ReplyTo != "mine" || string(read.Body) != "body" || read.TTL != time.Minute {
			t.Errorf("got request %+v, want reply queue mine and a TTL of a minute", read)
		}
		if read.Headers["a"] != "b" || write.Headers["a"] != "b" {
			t.Errorf("headers: got %v and %v, want those of the context", read.Headers, write.Headers)
		}
		if read.ID == write.ID {
			t.Errorf("two calls have the id %s", read.ID)
		}
		if read.Persistent || linear.Persistent || !write.Persistent {
			t.Errorf("persistent: read %v, linearizable %v, write %v; want only the write", read.Persistent, linear.Persistent, write.Persistent)
		}
	})
}

// Without a reply queue nothing is sent: a call waits for a reply queue, and if its deadline passes first returns
// that nothing was sent.
func TestCaller_Call_WaitsForReplyQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		published := 0
		conn := &fakeConn{}
		conn.publish = func(m mq.Message) error {
			published++
			conn.handle(mq.Message{ID: m.ID})
			return nil
		}
		caller := startCaller(t, conn)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := caller.Call(ctx, mq.ReadQ, nil, last)
		if !errors.Is(err, mq.ErrUnavailable) || published != 0 {
			t.Fatalf("without a reply queue: got error %v and %d messages, want %v and none", err, published, mq.ErrUnavailable)
		}
		called := make(chan error, 1)
		go func() { called <- caller.Call(t.Context(), mq.ReadQ, nil, last) }()
		synctest.Wait()
		conn.ready("mine")
		if err := <-called; err != nil {
			t.Errorf("call that waited for the reply queue: got %v, want nil", err)
		}
	})
}

// If the bus is down a call fails immediately, with the bus's error.
func TestCaller_Call_BusDownFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		caller := startCaller(t, &fakeConn{notReady: mq.ErrClosed})
		if err := caller.Call(t.Context(), mq.ReadQ, nil, last); !errors.Is(err, mq.ErrClosed) {
			t.Errorf("got %v, want %v", err, mq.ErrClosed)
		}
	})
}

// Call returns the error of Publish, unless the answer was faster than the confirm.
func TestCaller_Call_PublishErrors(t *testing.T) {
	t.Parallel()
	for _, want := range []error{mq.ErrUnavailable, mq.ErrUnroutable, mq.ErrRefused, mq.ErrClosed, mq.ErrUnconfirmed} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/%v", want, answered), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					conn := &fakeConn{}
					conn.publish = func(m mq.Message) error {
						if answered {
							conn.handle(mq.Message{ID: m.ID})
						}
						return fmt.Errorf("publish: %w", want)
					}
					caller := startCaller(t, conn)
					conn.ready("mine")
					err := caller.Call(t.Context(), mq.WriteQ, nil, last)
					if answered && err != nil {
						t.Errorf("answered before the error: got %v, want nil", err)
					}
					if !answered && !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				})
			})
		}
	}
}

// A bus may repeat a request until the first reply has arrived. Replies after a repetition are marked, because a copy of
// the request may be executed later. A reply proves that the request arrived, whatever Publish then returns.
func TestCaller_Call_RepeatedRequest(t *testing.T) {
	t.Parallel()
	for _, repeated := range []bool{false, true} {
		t.Run(fmt.Sprint(repeated), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := &fakeConn{}
				conn.publish = func(m mq.Message) error {
					if repeated && !m.Again() {
						t.Error("before a reply: the request may not be repeated")
					}
					conn.handle(mq.Message{ID: m.ID})
					if m.Again() {
						t.Error("after a reply: the request may be repeated")
					}
					go conn.handle(mq.Message{ID: m.ID})
					return mq.ErrUnconfirmed
				}
				caller := startCaller(t, conn)
				conn.ready("mine")
				var marks []bool
				err := caller.Call(t.Context(), mq.WriteQ, nil, func(_ []byte, mark bool) bool {
					marks = append(marks, mark)
					return len(marks) == 2
				})
				if want := []bool{repeated, repeated}; err != nil || !slices.Equal(marks, want) {
					t.Errorf("got error %v and replies marked %v, want nil and %v", err, marks, want)
				}
			})
		})
	}
}

// A lost reply queue ends the calls that wait for it, and no others: as soon as the loss is known, when another queue
// takes its place, and when Run ends.
func TestCaller_Call_LostReplyQueue(t *testing.T) {
	t.Parallel()
	losses := map[string]func(conn *fakeConn){
		"Known":    func(conn *fakeConn) { conn.ready("") },
		"Replaced": func(conn *fakeConn) { conn.ready("other") },
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var latest string
				conn := &fakeConn{publish: func(m mq.Message) error { latest = m.ID; return nil }}
				caller := startCaller(t, conn)
				conn.ready("mine")
				called := make(chan error, 1)
				go func() { called <- caller.Call(t.Context(), mq.WriteQ, nil, last) }()
				synctest.Wait()
				lose(conn)
				err := <-called
				if !errors.Is(err, mq.ErrReplyLost) || !errors.Is(err, mq.ErrUnconfirmed) {
					t.Errorf("got %v, want %v, which is an %v", err, mq.ErrReplyLost, mq.ErrUnconfirmed)
				}
				conn.ready("other")
				go func() { called <- caller.Call(t.Context(), mq.WriteQ, nil, last) }()
				synctest.Wait()
				conn.handle(mq.Message{ID: latest})
				if err := <-called; err != nil {
					t.Errorf("call on the new reply queue: got %v, want nil", err)
				}
			})
		})
	}
}

// When Run ends, no call keeps waiting.
func TestCaller_Run_EndEndsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{publish: func(mq.Message) error { return nil }}
		caller := mq.NewCaller(conn)
		ctx, cancel := context.WithCancel(t.Context())
		ran, called := make(chan error, 1), make(chan error, 1)
		go func() { ran <- caller.Run(ctx) }()
		synctest.Wait()
		conn.ready("mine")
		go func() { called <- caller.Call(t.Context(), mq.ReadQ, nil, last) }()
		synctest.Wait()
		cancel()
		if err := <-called; !errors.Is(err, mq.ErrReplyLost) {
			t.Errorf("call: got %v, want %v", err, mq.ErrReplyLost)
		}
		if err := <-ran; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v, want %v", err, context.Canceled)
		}
	})
}

// No reply reaches onReply once Call has returned, even if it arrives at that moment. Call waits for an onReply that
// is running.
func TestCaller_Call_NoReplyAfterReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var id string
		conn := &fakeConn{publish: func(m mq.Message) error { id = m.ID; return nil }}
		caller := startCaller(t, conn)
		conn.ready("mine")
		ctx, cancel := context.WithCancel(t.Context())
		replies := 0
		called := make(chan error, 1)
		go func() {
			called <- caller.Call(ctx, mq.ReadQ, nil, func([]byte, bool) bool {
				cancel()
				runtime.Gosched() // let Call return now, if it wrongly would
				replies++         // and race with the read below
				return false
			})
		}()
		synctest.Wait()
		go conn.handle(mq.Message{ID: id})
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		conn.handle(mq.Message{ID: id})
		if replies != 1 {
			t.Errorf("got %d replies, want 1", replies)
		}
		if n := caller.Waiting(); n != 0 {
			t.Errorf("the caller remembers %d calls that are over", n)
		}
	})
}

// A slow reply handler does not keep other calls from being sent.
func TestCaller_Call_SlowHandlerDoesNotBlockCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 2)
		conn := &fakeConn{publish: func(m mq.Message) error { sent <- m.ID; return nil }}
		caller := startCaller(t, conn)
		conn.ready("mine")
		entered, leave := make(chan struct{}), make(chan struct{})
		called := make(chan error, 2)
		go func() {
			called <- caller.Call(t.Context(), mq.ReadQ, nil, func([]byte, bool) bool {
				close(entered)
				<-leave
				return true
			})
		}()
		first := <-sent
		go conn.handle(mq.Message{ID: first})
		<-entered
		go func() { called <- caller.Call(t.Context(), mq.ReadQ, nil, last) }()
		second := <-sent // in a bubble, a call that waits for the handler is a deadlock
		close(leave)
		conn.handle(mq.Message{ID: second})
		for range 2 {
			if err := <-called; err != nil {
				t.Errorf("got %v, want nil", err)
			}
		}
	})
}
