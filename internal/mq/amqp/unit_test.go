package amqp_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
)

// refusing is a network without a peer. It counts the attempts to connect.
type refusing struct{ network }

func (r *refusing) dial(context.Context, string, string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials++
	return nil, errors.New("connection refused")
}

// dialNobody returns a connection over a network that fake time runs.
func dialNobody(t *testing.T, log *logBuffer, dial func(context.Context, string, string) (net.Conn, error)) *amqp.Conn {
	t.Helper()
	c, err := amqp.Dial(amqp.Config{URL: "amqp://guest:secret@broker/", Log: log.logger(), DialContext: dial})
	if err != nil {
		t.Fatalf("dial: got %v, want nil", err)
	}
	return c
}

// Without a broker a connection retries for ever, neither too often nor with long breaks, logs the outage and repeats it
// once a minute, with the address and without the password, and returns ErrUnavailable with the reason.
func TestConn_NoBroker_TriesForEverAndRepeatsItSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, broker := &logBuffer{}, &refusing{}
		c := dialNobody(t, log, broker.dial)
		defer func() { _ = c.Close() }()
		time.Sleep(time.Hour) // of the bubble
		// Three connections, 2.5 s on average between two tries.
		if got := broker.dialed(); got < 3*3600/5 || got > 3*3600 {
			t.Errorf("got %d tries in an hour, want about one each 2.5 s", got)
		}
		// A try that is reported comes up to 5 s after the minute.
		got := log.count("not connected")
		if got < 3*3600/65 || got > 3*61 {
			t.Errorf("got %d lines in the log in an hour, want about one a minute for each of three connections", got)
		}
		if with := log.count("addr=amqp://guest@broker:5672/ "); with != got {
			t.Errorf("%d of %d lines have the broker's address", with, got)
		}
		if log.count("secret") != 0 {
			t.Error("the log shows the password")
		}
		err := c.Publish(t.Context(), mq.ReadQ, mq.Message{})
		if !errors.Is(err, mq.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("publish: got %v, want ErrUnavailable and the reason", err)
		}
	})
}

// A broker that accepts connections and sends nothing is given up after a while, and does not delay Close.
func TestConn_SilentBroker_IsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := &network{}
		c := dialNobody(t, &logBuffer{}, func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			silent.mu.Lock()
			defer silent.mu.Unlock()
			silent.dials++
			silent.sockets = append(silent.sockets, theirs)
			return ours, nil
		})
		time.Sleep(time.Minute) // of the bubble
		if got := silent.dialed(); got < 10 {
			t.Errorf("got %d tries in a minute, want the silent ones given up after 5 s", got)
		}
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("close waited %v for a broker that never answered", took)
		}
		silent.cut()
	})
}

// Settings that can never work are refused immediately, without revealing the password.
func TestDial_BadSettings_AreErrors(t *testing.T) {
	t.Parallel()
	const good = "amqp://guest:secret@broker/"
	for name, config := range map[string]amqp.Config{
		"NoURL":          {},
		"OtherScheme":    {URL: "http://guest:secret@broker/"},
		"NotAURL":        {URL: "amqp://guest:secret@bro ker:x/"},
		"NegativeLimit":  {URL: good, MaxReady: -1},
		"LongPrefix":     {URL: good, Prefix: strings.Repeat("x", 250)},
		"ShortHeartbeat": {URL: good, Heartbeat: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := amqp.Dial(config)
			if err == nil {
				_ = c.Close()
				t.Fatal("got nil, want an error")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}
