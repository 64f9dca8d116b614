package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/scale"
)

// run starts an orchestrator by steps, until the test ends, and waits until it is ready.
func run(t *testing.T, name string, steps ...func(*System, context.Context) error) *System {
	t.Helper()
	sys := begin(t, name, steps...)
	if err := sys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sys
}

// begin starts an orchestrator by steps, until the test ends.
func begin(t *testing.T, name string, steps ...func(*System, context.Context) error) *System {
	t.Helper()
	sys, err := start(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), Name: name, Data: t.TempDir(), Slaves: 1, CallTimeout: 40 * time.Second, HungAfter: time.Minute, Orchestrator: "127.0.0.1:0",
		Scale: Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Hour},
	}, steps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := sys.Close(context.WithoutCancel(t.Context())); closeErr != nil {
			t.Error(closeErr)
		}
	})
	return sys
}

// Ports that are occupied are all named, before the database is opened.
func TestStart_PortsOccupied_AllAreNamedAndNothingStarts(t *testing.T) {
	busy := func() string {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	}
	users, orchestrator := busy(), busy()
	data := filepath.Join(t.TempDir(), "data")
	sys, err := Start(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), Name: "up", Data: data, Slaves: 1,
		Gateway: "127.0.0.1:0", Users: users, Rides: "127.0.0.1:0", Orchestrator: orchestrator,
	})
	if err == nil {
		_ = sys.Close(context.WithoutCancel(t.Context()))
		t.Fatal("got a running system")
	}
	want := "users: listen on " + users + ": address already in use\norchestrator: listen on " + orchestrator + ": address already in use"
	if !errors.Is(err, syscall.EADDRINUSE) || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if _, err = os.Stat(data); err == nil {
		t.Error("the data folder was made")
	}
}

// pair starts two orchestrators on one bus, coordinator and persdb.
func pair(t *testing.T) (first, second *System) {
	t.Helper()
	first = run(t, "first", (*System).startCore, (*System).startOrchestrator)
	second = run(t, "second", beside(first, first.parts.conn), (*System).startOrchestrator)
	return first, second
}

// beside starts an orchestrator with the coordinator and persdb of first, and with conn.
func beside(first *System, conn mq.Conn) func(*System, context.Context) error {
	return func(s *System, ctx context.Context) (err error) {
		of := first.parts.backends
		s.parts, err = newCoreOn(ctx, &backends{
			store: of.store, conn: conn, meter: of.meter, coordinator: of.coordinator, launcher: of.launcher, control: of.control, keepWorkers: true,
		}, s.cfg, s.metrics)
		s.onClose(func(ctx context.Context) error { return s.parts.close(ctx) })
		return err
	}
}

// lateConn is a connection that is up once connected is set.
type lateConn struct {
	mq.Conn
	connected atomic.Bool
}

func (c *lateConn) Ready() error {
	if !c.connected.Load() {
		return mq.ErrUnavailable
	}
	return c.Conn.Ready()
}

// The workers may have reached the broker before the orchestrator has: a write would be refused.
func TestReady_OrchestratorNotYetAtTheBroker_Waits(t *testing.T) {
	first := run(t, "first", (*System).startCore, (*System).startOrchestrator)
	conn := &lateConn{Conn: first.parts.conn}
	late := begin(t, "late", beside(first, conn), (*System).startOrchestrator)
	testenv.Eventually(t, time.Minute, func() error {
		if got := late.parts.missing(t.Context()); got != missingBroker {
			return fmt.Errorf("got %q missing, want %q", got, missingBroker)
		}
		return nil
	})
	conn.connected.Store(true)
	if err := late.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// From a second after a write through one orchestrator is acknowledged, reads through another one wait for its position.
func TestOrchestrators_WriteThroughOne_PositionOfTheOther(t *testing.T) {
	first, second := pair(t)
	apitest.OK(t, "POST", first.URLs().Orchestrator+"/db/execute", `["CREATE TABLE t(n)","INSERT INTO t VALUES(1)"]`)
	written := first.parts.dispatcher.SeenSeq()
	testenv.Eventually(t, time.Minute, func() error {
		if got := second.parts.dispatcher.SeenSeq(); got < written {
			return fmt.Errorf("the second orchestrator knows of position %d, want %d", got, written)
		}
		return nil
	})
	apitest.OK(t, "GET", second.URLs().Orchestrator+"/db/query?q=SELECT+n+FROM+t", "")
}

// A client whose orchestrator goes away sees at the next one all that it has written, at once, and so do its writes.
func TestOrchestrators_ClientGoesToTheOther_SeesItsWrites(t *testing.T) {
	first, second := pair(t)
	way := testenv.NewNetwork(t, first.URLs().Orchestrator)
	c, err := dbclient.New(dbclient.Config{URL: "http://" + way.Addr() + "," + second.URLs().Orchestrator, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	execute := func(text string) dbaas.Seq {
		t.Helper()
		ans, err := c.Execute(t.Context(), dbclient.Options{}, dbclient.SQL(text))
		if err != nil {
			t.Fatal(err)
		}
		return ans.Seq
	}
	execute("CREATE TABLE t(n)")
	written := execute("INSERT INTO t VALUES(1)")
	way.Abandon()
	var ans dbclient.Answer
	testenv.Eventually(t, time.Minute, func() (err error) { // the read that the connection is lost under is not repeated
		ans, err = c.Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT count(*) FROM t"))
		return err
	})
	if ans.Seq < written || ans.Results[0].Rows[0][0] != int64(1) {
		t.Errorf("got %+v, want a row, at %d or later", ans, written)
	}
	if got := execute("INSERT INTO t VALUES(2)"); got <= written {
		t.Errorf("got position %d of a later write, want more than %d", got, written)
	}
}
