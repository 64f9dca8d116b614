package amqp //nolint:testpackage // the connection that publishes is not exported

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// A reply that was certainly not sent, because the connection that publishes was lost, is sent over the next connection.
// Its reads are acknowledged afterwards, so no other worker would answer them.
func TestReply_ConnectionLost_SentOverTheNext(t *testing.T) {
	t.Parallel()
	config := Config{URL: testenv.RabbitMQ(t), Prefix: "test." + rand.Text() + ".", Name: "reply", Log: slog.New(slog.DiscardHandler)}
	c, err := Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if failed := errors.Join(c.Close(), Remove(context.WithoutCancel(t.Context()), config)); failed != nil {
			t.Error(failed)
		}
	}()
	names, answers := make(chan string, 9), make(chan string, 9)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Replies(ctx, func(name string) { names <- name }, func(m mq.Message) { answers <- string(m.Body) })
	}()
	to := <-names
	for try := 1; ; try++ { // on a busy machine the next connection may come after connectWait
		testenv.Eventually(t, time.Minute, c.Ready)
		p, _, lost := c.publishing.get()
		if lost != nil {
			t.Fatal(lost)
		}
		p.kill(errors.New("killed by the test"))
		<-p.over()
		if err = c.Reply(t.Context(), to, mq.Message{Body: []byte("answer"), TTL: time.Minute}); err == nil {
			break
		}
		if !errors.Is(err, mq.ErrUnavailable) || try == 10 {
			t.Fatalf("try %d: got %v, want nil", try, err)
		}
	}
	if got := <-answers; got != "answer" {
		t.Errorf("got %q, want the answer", got)
	}
	cancel()
	if err = <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("replies: got %v, want context canceled", err)
	}
}

// A reply waits for the next connection only while its caller waits, and not for long.
func TestReply_NoConnection_WaitsForItsCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ ttl, want time.Duration }{{time.Second, time.Second}, {time.Minute, connectWait}, {0, connectWait}} {
		synctest.Test(t, func(t *testing.T) {
			c, err := Dial(Config{
				URL: "amqp://u:p@h1/", Log: slog.New(slog.DiscardHandler),
				DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			begun := time.Now()
			err = c.Reply(t.Context(), replyPrefix+"x", mq.Message{TTL: tt.ttl})
			if took := time.Since(begun); !errors.Is(err, mq.ErrUnavailable) || took != tt.want {
				t.Errorf("TTL %v: got %v after %v, want ErrUnavailable after %v", tt.ttl, err, took, tt.want)
			}
		})
	}
}
