package amqp //nolint:testpackage // the decision is not exported

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/testkit/testenv"
)

func refusal(code int, reason string) error {
	return &connectError{&amqp091.Error{Code: code, Reason: reason, Server: true}}
}

// A connection is given up only if it never was up, and only for what lasts: a refusal by the broker, or a host without a
// name.
func TestHope(t *testing.T) {
	t.Parallel()
	wrong := &connectError{errors.Join(amqp091.ErrCredentials, nil)}
	for name, tt := range map[string]struct {
		err  error
		want time.Duration // zero: never
	}{
		"Password":      {wrong, refusedFor},
		"VHost":         {refusal(amqp091.NotAllowed, "NOT_ALLOWED - vhost x not found"), refusedFor},
		"TooMany":       {refusal(amqp091.NotAllowed, "NOT_ALLOWED - access to vhost refused: connection limit (7) is reached"), 0},
		"VHostDown":     {refusal(amqp091.InternalError, "INTERNAL_ERROR - vhost x is down"), 0},
		"Frozen":        {&connectError{errors.Join(amqp091.ErrCredentials, context.DeadlineExceeded)}, 0},
		"Login":         {refusal(amqp091.AccessRefused, "ACCESS_REFUSED - Login was refused"), refusedFor},
		"QueueRefused":  {&amqp091.Error{Code: amqp091.AccessRefused, Server: true}, 0},
		"NoName":        {&connectError{&net.DNSError{IsNotFound: true}}, unknownFor},
		"NameServer":    {&connectError{&net.DNSError{IsTemporary: true}}, 0},
		"NothingListen": {&connectError{errors.New("connection refused")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var h hope
				if got := gaveUp(&h, tt.err); got != tt.want {
					t.Errorf("given up after %v, want %v", got, tt.want)
				}
				h = hope{}
				_ = h.after(nil)
				if got := gaveUp(&h, tt.err); got != 0 {
					t.Errorf("a connection that was up is given up after %v", got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var h hope
		for range 100 {
			_ = h.after(wrong)
			time.Sleep(refusedFor / 2)
			if err := h.after(&connectError{errors.New("connection refused")}); err != nil {
				t.Fatalf("refusals with something else between them: got %v", err)
			}
		}
	})
}

// gaveUp returns after how long of the same error every second, up to an hour, h gives up; zero if it does not.
func gaveUp(h *hope, err error) time.Duration {
	began := time.Now()
	for time.Since(began) < time.Hour {
		if h.after(err) != nil {
			return time.Since(began)
		}
		time.Sleep(time.Second) // of the bubble
	}
	return 0
}

// The broker's answers to a wrong password and to an unknown vhost are recognized.
func TestDialSession_RefusedForGood(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(testenv.RabbitMQ(t))
	if err != nil {
		t.Fatal(err)
	}
	password, vhost := *at, *at
	password.User = url.UserPassword(at.User.Username(), "wrong")
	vhost.Path = "/no-such-vhost"
	for name, u := range map[string]url.URL{"Password": password, "VHost": vhost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Config{URL: u.String(), Log: slog.New(slog.DiscardHandler)}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, time.Minute, func() error { // a refusal may take almost as long as the handshake may
				s, failed := dialSession(t.Context(), config, config.nodes[0], "test")
				if failed == nil {
					s.close()
					t.Fatal("got a session")
				}
				if errors.Is(failed, context.DeadlineExceeded) {
					return failed
				}
				err = failed
				return nil
			})
			if limit, never := patience(err); !never || limit != refusedFor {
				t.Errorf("%v: got patience %v, %v, want %v", err, limit, never, refusedFor)
			}
		})
	}
}

// A host without a name is given up, with its address and without the password.
func TestConn_NoSuchHost_GivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reasons := make(chan error, 10_000)
		c, err := Dial(Config{
			URL: "amqp://guest:secret@nowhere/stack", Log: slog.New(slog.DiscardHandler), GiveUp: func(err error) { reasons <- err },
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		began := time.Now()
		err = <-reasons
		if took := time.Since(began); took < unknownFor || took > unknownFor+2*backoffCap {
			t.Errorf("given up after %v, want soon after %v", took, unknownFor)
		}
		if text := err.Error(); !strings.Contains(text, "amqp://guest@nowhere:5672/stack") || !strings.Contains(text, "no such host") || strings.Contains(text, "secret") {
			t.Errorf("got %q, want the address without the password, and the reason", text)
		}
	})
}
