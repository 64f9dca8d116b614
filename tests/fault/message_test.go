package fault_test

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
)

// publisher sends messages directly to writeQ, without an orchestrator.
type publisher struct {
	load *load
	conn mq.Conn
}

func newPublisher(t *testing.T, l *load) publisher {
	t.Helper()
	conn, err := amqp.Dial(amqp.Config{URL: l.sys.rabbit.URL, Prefix: l.sys.prefix, Name: "fault", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the bus: %v", err)
		}
	})
	return publisher{load: l, conn: conn}
}

// send publishes body until the broker confirms it.
func (p publisher) send(t *testing.T, body []byte) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		return p.conn.Publish(t.Context(), mq.WriteQ, mq.Message{Body: body, Persistent: true})
	})
}

// message returns the message of a write like those of the load.
func (p publisher) message(t *testing.T, name string) []byte {
	t.Helper()
	p.load.ledger.Acked(name)
	o := dbaas.Operation{
		ID: dbaas.NewOpID(time.Now()), Atomic: true,
		Statements: []dbaas.Statement{
			{SQL: "INSERT INTO effects(name) VALUES(?)", Args: []dbaas.Value{dbaas.Text(name)}},
			{SQL: "UPDATE counter SET n = n + 1 WHERE one = 1"},
		},
	}
	o.Fingerprint = wire.FingerprintOf(o.Atomic, o.Statements)
	body, err := wire.WriteRequest{Operations: []dbaas.Operation{o}}.Encode(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// awaitRow waits until the row with that name exists.
func (l *load) awaitRow(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		rows, err := l.sys.query("SELECT count(*) FROM effects WHERE name = '" + name + "'")
		if err != nil {
			return err
		}
		if n := string(rows[0][0]); n != "1" {
			return fmt.Errorf("rows of %s: got %s, want 1", name, n)
		}
		return nil
	})
}

// One master gets the same message five times, and so does the next master. When a message behind them in the queue has
// its effect, all of them have been handled.
func duplicateMessages(t *testing.T, l *load) {
	t.Helper()
	p := newPublisher(t, l)
	body := p.message(t, "duplicate")
	for round := range 2 {
		for range 5 {
			p.send(t, body)
		}
		last := fmt.Sprintf("behind-%d", round)
		p.send(t, p.message(t, last))
		if round == 0 {
			before := l.sys.awaitWhole(t, 2)
			signal(t, before.pids("master")[0], syscall.SIGKILL)
			l.awaitFailover(t)
			l.sys.awaitSuccessor(t, before)
		}
		l.awaitRow(t, last)
	}
}

// The master removes messages that it cannot decode, also from the dead letters, and handles the messages behind them.
// It stays master.
func poisonMessages(t *testing.T, l *load) {
	t.Helper()
	before, alerts := l.sys.cluster(t), l.sys.watchAlerts(t)
	p := newPublisher(t, l)
	whole := p.message(t, "whole")
	poison := [][]byte{[]byte("{}"), []byte("not a frame"), whole[:len(whole)-1], append([]byte{0xff}, whole...), make([]byte, 64<<10)}
	for _, body := range poison {
		p.send(t, body)
	}
	p.send(t, whole)
	l.awaitRow(t, "whole")
	testenv.Eventually(t, healLimit, func() error {
		return l.sys.atBroker(func(ch *amqp091.Channel) error {
			dead, err := ch.QueueDeclarePassive(l.sys.prefix+"dead.write.v3", true, false, false, false, nil)
			if err == nil && dead.Messages != 0 {
				err = fmt.Errorf("dead letters: got %d, want none", dead.Messages)
			}
			return err
		})
	})
	alerts.Await(t, "RideshareWritesGivenUp")
	if after := l.sys.awaitWhole(t, 2); after.Epoch != before.Epoch {
		t.Errorf("epoch after poison: got %d, want %d as before: the master must live on", after.Epoch, before.Epoch)
	}
}
