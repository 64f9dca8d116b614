package system

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/scale"
)

// run starts an orchestrator by steps, until the test ends.
func run(t *testing.T, name string, steps ...func(*System, context.Context) error) *System {
	t.Helper()
	sys, err := start(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), Name: name, Data: t.TempDir(), Slaves: 1, CallTimeout: 5 * time.Second, Orchestrator: "127.0.0.1:0",
		Scale: Scale{Policy: scale.Reads{PerSlave: 20, Limits: scale.Limits{Min: 1, Max: 1}}, Period: time.Hour},
	}, steps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := sys.Close(context.WithoutCancel(t.Context())); closeErr != nil {
			t.Error(closeErr)
		}
	})
	if err = sys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sys
}

// Two orchestrators on one bus, coordinator and persdb: from a second after a write through the first is acknowledged,
// reads through the second wait for its position.
func TestOrchestrators_WriteThroughOne_PositionOfTheOther(t *testing.T) {
	first := run(t, "first", (*System).startCore, (*System).startOrchestrator)
	second := run(t, "second", func(s *System, ctx context.Context) (err error) {
		of := first.parts.backends
		s.parts, err = newCoreOn(ctx, &backends{
			store: of.store, conn: of.conn, meter: of.meter, coordinator: of.coordinator, launcher: of.launcher, control: of.control, keepWorkers: true,
		}, s.cfg, s.metrics)
		s.onClose(func(ctx context.Context) error { return s.parts.close(ctx) })
		return err
	}, (*System).startOrchestrator)
	apitest.OK(t, "POST", first.URLs().Orchestrator+"/db/execute", `["CREATE TABLE t(n)","INSERT INTO t VALUES(1)"]`)
	written := first.parts.dispatcher.SeenSeq()
	testenv.Eventually(t, 4*time.Second, func() error {
		if got := second.parts.dispatcher.SeenSeq(); got < written {
			return fmt.Errorf("the second orchestrator knows of position %d, want %d", got, written)
		}
		return nil
	})
	apitest.OK(t, "GET", second.URLs().Orchestrator+"/db/query?q=SELECT+n+FROM+t", "")
}
