package main

import (
	"context"
	"strings"
	"testing"
	"time"

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
