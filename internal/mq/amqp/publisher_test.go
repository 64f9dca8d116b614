package amqp //nolint:testpackage // the connection that publishes is not exported

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// unconfirmed is a reply that is never confirmed.
type unconfirmed struct {
	silent  time.Duration // for so long the own node has been silent when the reply is sent
	again   time.Duration // after so long the own node is heard, every pulsePeriod
	owes    bool          // the queue owes an earlier confirm
	blocked bool          // the own node blocks publishers
	ends    time.Duration // after so long the session ends
	want    time.Duration // how long the reply waits
	late    bool          // the queue owes a confirm afterwards
}

// A missing confirm means that the queue's node is silent only if the own node is heard. While the own node is silent, a
// reply waits for the end of the session, 1.75 s later at the latest. Then it can be repeated.
func TestConfirmed_ReplyWithoutConfirm_WaitsWhileOwnNodeSilent(t *testing.T) {
	t.Parallel()
	const never, killed = time.Hour, pulsePeriod + silentLimit + silentLimit/4
	for name, reply := range map[string]unconfirmed{
		"Heard":                      {ends: never, want: time.Second, late: true},
		"HeardUntilTheReply":         {again: never, ends: killed, want: killed},
		"HeardUntilAfterTheReply":    {silent: -200 * time.Millisecond, again: never, ends: killed, want: killed},
		"HeardAgain":                 {again: 1200 * time.Millisecond, ends: never, want: 1500 * time.Millisecond, late: true},
		"SilentAndNotEnded":          {again: never, ends: never, want: 3 * time.Second, late: true},
		"Blocked":                    {again: never, blocked: true, ends: never, want: time.Second, late: true},
		"QueueOwes_Heard":            {silent: pulsePeriod, again: never, owes: true, ends: never, late: true},
		"QueueOwes_Silent":           {silent: time.Second, again: never, owes: true, ends: killed - time.Second, want: killed - time.Second, late: true},
		"QueueOwes_HeardAgain":       {silent: time.Second, again: pulsePeriod, owes: true, ends: never, want: time.Second, late: true},
		"QueueOwes_SilentAndBlocked": {silent: time.Second, again: never, owes: true, blocked: true, ends: never, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, reply.test)
		})
	}
}

func (u unconfirmed) test(t *testing.T) {
	t.Helper()
	m := &publication{key: replyPrefix + "x", elsewhere: true, confirm: &amqp091.DeferredConfirmation{}}
	p := &publisher{
		session: &session{done: make(chan struct{})}, stuck: map[string]bool{m.key: u.owes},
		config: Config{nodes: make([]node, 3), ConfirmTimeout: DefaultClusterConfirmTimeout},
	}
	defer close(p.done)
	p.blocked.Store(u.blocked)
	p.heard.Store(time.Now().Add(-u.silent).UnixNano())
	go func() { // ends with the session
		for pause := u.again; p.waits(pause); pause = pulsePeriod {
			p.heard.Store(time.Now().UnixNano())
		}
	}()
	// The library alone can end a confirm, as it does when a session ends. Here a context ends the wait.
	ctx, cancel := context.WithTimeout(t.Context(), u.ends)
	defer cancel()
	begun := time.Now()
	err := p.confirmed(ctx, m)
	if took := time.Since(begun); !errors.Is(err, mq.ErrUnconfirmed) || took != u.want {
		t.Errorf("got %v after %v, want ErrUnconfirmed after %v", err, took, u.want)
	}
	if got := p.owes(m); got != u.late {
		t.Errorf("the queue owes a confirm: got %v, want %v", got, u.late)
	}
}
