package amqp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/testenv"
)

// testRights runs the system's steps on a broker that was set up from the stack's definitions. The queues in them are
// those that the code would create, and each part may do everything it needs and nothing that only others need.
func testRights(t *testing.T, b *bus) {
	t.Helper()
	b.prefix, b.limits.MaxReady = "", amqp.DefaultMaxReady
	importDefinitions(t, b)
	b.connected(t, "administrator") // declares: with other arguments the broker would refuse

	orchestrator, worker := b.as(t, "orchestrator"), b.as(t, "worker")
	replies := make(chan mq.Message, 1)
	name := make(chan string, 1)
	running(t, func(ctx context.Context) error {
		return orchestrator.Replies(ctx, func(n string) { name <- n }, func(m mq.Message) { replies <- m })
	})
	replyTo := receive(t, name)
	for _, q := range mq.WorkQueues() {
		if err := orchestrator.Publish(t.Context(), q, mq.Message{Body: []byte("request"), ReplyTo: replyTo, Persistent: true}); err != nil {
			t.Fatalf("orchestrator publishes to %s: got %v, want nil", q, err)
		}
		h := consume(t, worker, q, 1)
		d := h.next(t, 1)[0]
		if err := errors.Join(worker.Reply(t.Context(), replyTo, mq.Message{Body: []byte("answer")}), d.Ack()); err != nil {
			t.Errorf("worker answers a message of %s: got %v, want nil", q, err)
		}
		receive(t, replies)
		_ = h.end() // its context's error
	}
	entries, bound := make(chan []byte, 2), make(chan struct{}, 2)
	for _, c := range []mq.Conn{orchestrator, worker} {
		running(t, func(ctx context.Context) error {
			return c.Subscribe(ctx, mq.Subscriber{Entry: func(body []byte) { entries <- body }, Gap: func() { bound <- struct{}{} }})
		})
		receive(t, bound)
	}
	if err := worker.Broadcast(t.Context(), []byte("entry"), nil); err != nil {
		t.Errorf("worker broadcasts: got %v, want nil", err)
	}
	receive(t, entries)
	receive(t, entries)
	b.counted(t)
	b.forbidden(t)
}

// counted checks that the orchestrator may count waiting messages.
func (b *bus) counted(t *testing.T) {
	t.Helper()
	config, n := b.config("orchestrator")
	config.URL = b.urlOf(t, "orchestrator")
	m := b.openMeter(t, config, n)
	defer func() { _ = m.Close() }()
	got, err := m.Depths(t.Context())
	want := map[mq.Queue]int{mq.ReadQ: 0, mq.LinearQ: 0, mq.WriteQ: 0, mq.DeadQ: 0}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("orchestrator counts: error %v, depths (-want +got):\n%s", err, diff)
	}
}

// forbidden checks what neither part may do.
func (b *bus) forbidden(t *testing.T) {
	t.Helper()
	for name, c := range map[string]struct {
		user string
		do   func(*amqp091.Channel) error
	}{
		"OrchestratorTakesWrites": {"orchestrator", func(ch *amqp091.Channel) error {
			_, err := ch.Consume(b.queue(mq.WriteQ), "", false, false, false, false, nil)
			return err
		}},
		"OrchestratorBroadcasts": {"orchestrator", func(ch *amqp091.Channel) error {
			err := ch.Confirm(false)
			if err != nil {
				return err
			}
			closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
			if err = ch.PublishWithContext(t.Context(), b.exchange(), "", false, false, amqp091.Publishing{}); err != nil {
				return err
			}
			return receive(t, closed)
		}},
		"WorkerDeletesWriteQ": {"worker", func(ch *amqp091.Channel) error {
			_, err := ch.QueueDelete(b.queue(mq.WriteQ), false, false, false)
			return err
		}},
		"WorkerMakesAQueue": {"worker", func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare("mine", true, false, false, false, nil)
			return err
		}},
	} {
		conn, err := amqp091.Dial(b.urlOf(t, c.user))
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		err = c.do(ch)
		if refusal, ok := errors.AsType[*amqp091.Error](err); !ok || refusal.Code != amqp091.AccessRefused {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
		_ = conn.Close()
	}
}

// importDefinitions loads the stack's definitions, with the users' names as passwords.
func importDefinitions(t *testing.T, b *bus) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rabbitmq", "definitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, placeholder := range []string{"@ORCHESTRATOR@", "@WORKER@"} {
		text = bytes.ReplaceAll(text, []byte(`"password_hash": "`+placeholder+`"`), []byte(`"password_hash": ""`))
	}
	if !json.Valid(text) || bytes.Contains(text, []byte("@")) {
		t.Fatalf("definitions.json is not as expected: %s", text)
	}
	file := filepath.Join(t.TempDir(), "definitions.json")
	if err = os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.service.Ctl(t, "import_definitions", file)
	for _, user := range []string{"orchestrator", "worker"} {
		b.service.Ctl(t, "change_password", user, user)
	}
}

// urlOf is the broker's URL for a user whose password is its name.
func (b *bus) urlOf(t *testing.T, user string) string {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, user)
	return u.String()
}

// as returns a connection of that user, which is up, and closed after the test.
func (b *bus) as(t *testing.T, user string) mq.Conn {
	t.Helper()
	config, n := b.config(user)
	config.URL = b.urlOf(t, user)
	c := b.open(t, config, n)
	t.Cleanup(func() { _ = c.Close() })
	testenv.Eventually(t, patience, c.Ready)
	return c
}
