package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/testenv"
)

// If the broker does not accept the largest message, the orchestrator ends at its start with one line that names the
// settings.
func TestOrchestrator_BrokerTakesOnlySmallMessages_FailsWithOneLine(t *testing.T) {
	broker := testenv.StartRabbitMQ(t)
	broker.Ctl(t, "eval", "application:set_env(rabbit, max_message_size, 16777216).") // RabbitMQ 4's default
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)                      // one that stays ends well
	defer cancel()
	var stdout, stderr lines
	code := run(ctx, []string{
		"orchestrator", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--bus", broker.URL, "--coordinator", "zk://127.0.0.1:1", "--persdb-url", "http://127.0.0.1:1",
	}, &stdout, &stderr)
	text := stderr.text.String()
	if code != exitFailed || strings.Count(text, "\n") != 1 || !strings.Contains(text, "max_message_size") || !strings.Contains(text, "LARGEST_REQUEST_MIB") {
		t.Errorf("got exit code %d and stderr %q, want %d and one line that names both settings", code, text, exitFailed)
	}
}

// Parts whose broker refuses the password or has no such vhost end by themselves, with one line that names the broker
// and the reason and hides the password.
func TestParts_BrokerRefusesThem_FailWithOneLine(t *testing.T) {
	at, err := url.Parse(testenv.RabbitMQ(t))
	if err != nil {
		t.Fatal(err)
	}
	password, vhost := *at, *at
	password.User = url.UserPassword(at.User.Username(), "wrong-secret")
	vhost.Path = "/no-such-vhost"
	for name, tt := range map[string]struct {
		part string
		bus  url.URL
		want string
	}{
		"WorkerPassword":       {"worker --dir", password, "username or password not allowed"},
		"OrchestratorPassword": {"orchestrator --listen 127.0.0.1:0 --data", password, "username or password not allowed"},
		"WorkerVHost":          {"worker --dir", vhost, "no-such-vhost not found"},
		"OrchestratorVHost":    {"orchestrator --listen 127.0.0.1:0 --data", vhost, "no-such-vhost not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // a part that stays ends well
			defer cancel()
			args := append(strings.Fields(tt.part), t.TempDir(), "--bus", tt.bus.String(), "--coordinator", "zk://127.0.0.1:1", "--persdb-url", "http://127.0.0.1:1")
			var stdout, stderr lines
			code := run(ctx, args, &stdout, &stderr)
			text := stderr.text.String()
			if code != exitFailed || strings.Count(text, "\n") != 1 || !strings.Contains(text, tt.want) || !strings.Contains(text, "@"+at.Host) {
				t.Errorf("got exit code %d and stderr %q, want %d and one line with the broker's address and %q", code, text, exitFailed, tt.want)
			}
			if strings.Contains(text+stdout.text.String(), "wrong-secret") {
				t.Error("the password is shown")
			}
		})
	}
}

// `rideshare queues` prints what it declared, and can be repeated. If it cannot reach the broker in time it fails with one
// line, and a wrong setting is a usage error.
func TestQueues(t *testing.T) {
	broker, prefix := testenv.RabbitMQ(t), "test."+rand.Text()+"."
	t.Cleanup(func() {
		if err := amqp.Remove(context.Background(), amqp.Config{URL: broker, Prefix: prefix, Name: "test"}); err != nil {
			t.Error(err)
		}
	})
	nobody := "amqp://u:hush@" + testenv.FreeAddress(t) + "/"
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--bus", broker, "--prefix", prefix}, exitDone, prefix + "writeQ.v3\n"},
		{[]string{"--bus", broker, "--prefix", prefix}, exitDone, prefix + "writeQ.v3\n"},
		{[]string{"--bus", nobody, "--wait", "500ms"}, exitFailed, "queues not declared: node "},
		{[]string{"--bus", broker, "--wait", "0s"}, exitUsage, "--wait: "},
		{[]string{"--bus", "amqp://u:hush@h1,h1/"}, exitUsage, "--bus: the URL has the address h1:5672 twice"},
		{nil, exitUsage, "--bus=URL or --bus-file=FILE"},
	} {
		var stdout, stderr lines
		code := run(t.Context(), append([]string{"queues"}, tt.args...), &stdout, &stderr)
		if text := stdout.text.String() + stderr.text.String(); code != tt.code || !strings.Contains(text, tt.want) || strings.Contains(text, "hush") {
			t.Errorf("%v: got exit code %d and %q, want %d and %q", tt.args, code, text, tt.code, tt.want)
		}
	}
}
