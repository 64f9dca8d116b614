package zookeeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"rideshare/internal/coord"
	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wait"
)

// patience limits the wait for what must happen.
const patience = time.Minute

// open returns a session of a new client, and its network.
func open(t *testing.T, w *world) (coord.Session, *testenv.Network) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := w.Open(ctx)
	if err != nil {
		t.Fatalf("open: got %v, want a session", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, w.proxy(s)
}

func register(t *testing.T, s coord.Session, m coord.Member) {
	t.Helper()
	if err := s.Register(t.Context(), m); err != nil {
		t.Fatalf("register %v: got %v, want nil", m, err)
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

// brief returns a context for a call whose reply is lost.
func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// awaitToken waits for a token.
func awaitToken(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("no token came")
	}
}

func inDoubt(s coord.Session) bool { return wait.Closed(s.Suspended()) }

// stat waits until a node exists, and returns the server's metadata of it.
func stat(t *testing.T, conn *zk.Conn, path string) *zk.Stat {
	t.Helper()
	var found *zk.Stat
	testenv.Eventually(t, patience, func() error {
		is, got, err := conn.Exists(path)
		if err == nil && !is {
			err = fmt.Errorf("no node %s", path)
		}
		found = got
		return err
	})
	return found
}

// The nodes have the specified names and contents, under the node in the URL. Registrations and the leader's node end
// with their session.
func TestSession_NodesAreAsAgreed(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, _ := open(t, w)
	m := coord.Member{PID: 1234, Worker: "w1", Role: dbaas.RoleSlave, Epoch: 2, Applied: 7, Control: "http://127.0.0.1:9"}
	register(t, s, m)
	if err := s.SetSlaveCount(t.Context(), 3, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lead(t.Context(), "o1"); err != nil {
		t.Fatal(err)
	}
	conn := w.witness()
	for path, ephemeral := range map[string]bool{"/conts/cont_1234": true, "/orchestrator": true, "/slavecount": false, "/conts": false} {
		if got := stat(t, conn, w.root+path).EphemeralOwner != 0; got != ephemeral {
			t.Errorf("%s: got ephemeral %v, want %v", path, got, ephemeral)
		}
	}
	data, _, err := conn.Get(w.root + "/conts/cont_1234")
	if err != nil {
		t.Fatal(err)
	}
	var got coord.Member
	if err = json.Unmarshal(data, &got); err != nil {
		t.Fatalf("content %s: %v", data, err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
	if data, _, err = conn.Get(w.root + "/slavecount"); string(data) != "3" || err != nil {
		t.Errorf("slave count: got %q and error %v, want 3", data, err)
	}
	if got := s.Timeout(); got != sessionTimeout {
		t.Errorf("time-out: got %v, want %v", got, sessionTimeout)
	}
}

// The timeout is what the server granted, not what was requested.
func TestSession_TimeoutIsTheServers(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	k, err := zookeeper.New(zookeeper.Config{URL: w.url + w.root, SessionTimeout: time.Hour, Log: w.log})
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got := s.Timeout(); got >= time.Hour || got < sessionTimeout {
		t.Errorf("got %v, want the server's maximum", got)
	}
}

// Two systems on one server do not see each other.
func TestSession_RootsAreSeparate(t *testing.T) {
	t.Parallel()
	one, _ := open(t, sharedWorld(t))
	other, _ := open(t, sharedWorld(t))
	register(t, one, coord.Member{PID: 1, Worker: "w1"})
	for _, s := range []coord.Session{one, other} {
		if leads, err := s.Lead(t.Context(), "o"); !leads || err != nil {
			t.Errorf("lead: got %v and error %v, want both to lead", leads, err)
		}
	}
	if got, err := other.Members(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("members: got %v and error %v, want none", got, err)
	}
}

// A broken connection is re-established in the same session, and watches go on.
func TestSession_ConnectionReset_SessionGoesOn(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	a, network := open(t, w)
	b, _ := open(t, w)
	m := coord.Member{PID: 1, Worker: "w1"}
	register(t, a, m)
	conn := w.witness()
	before := stat(t, conn, w.root+"/conts/cont_1")
	<-a.Watch()
	for range 3 {
		network.Reset()
		m.Applied++
		testenv.Eventually(t, patience, func() error { return a.Register(t.Context(), m) })
	}
	if after := stat(t, conn, w.root+"/conts/cont_1"); after.Czxid != before.Czxid || after.EphemeralOwner != before.EphemeralOwner {
		t.Errorf("registration: got made by %d of %x, want by %d of %x: it was never away",
			after.Czxid, after.EphemeralOwner, before.Czxid, before.EphemeralOwner)
	}
	for i := range 3 {
		register(t, b, coord.Member{PID: 2 + i, Worker: "w2"})
		for members := 0; members != 2+i; {
			awaitToken(t, a.Watch())
			if got, err := a.Members(t.Context()); err == nil {
				members = len(got)
			}
		}
	}
}

// A server that sends but does not receive proves nothing: the session is suspended before the session's end, although the
// server's events keep the connection busy until then.
func TestSession_HeardByNobody_SuspendedBeforeLoss(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	a, network := open(t, w)
	b, _ := open(t, w)
	register(t, a, coord.Member{PID: 1, Worker: "w1"})
	const others = 200
	for i := range others {
		register(t, b, coord.Member{PID: 100 + i, Worker: "other"})
	}
	for range others {
		<-a.Watch() // tokens coalesce; the first comes when all watches are armed
		if members, err := a.Members(t.Context()); err == nil && len(members) == others+1 {
			break
		}
	}
	conn := w.witness()
	network.Stall(testenv.ToServer)
	tick := time.NewTicker(sessionTimeout / 50)
	defer tick.Stop()
	for i := range others {
		<-tick.C
		if i == 40 {
			// From now on the server is silent; the client would treat that as a loss long after the server does.
			network.Cut()
		}
		if gone(t, conn, w.root+"/conts/cont_1") {
			if !inDoubt(a) {
				t.Error("the registration is gone and its owner is not suspended")
			}
			return
		}
		register(t, b, coord.Member{PID: 100 + i, Worker: "other", Applied: 1}) // fires one watch
	}
	t.Error("a session of which nothing was heard did not end")
}

// A registration, a leadership or a slave count whose reply was lost was written; the next call finds that out.
func TestSession_ReplyLost_NextCallKnows(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, network := open(t, w)
	conn := w.witness()
	m := coord.Member{PID: 1, Worker: "w1"}
	lose := func(what, path string, call func(context.Context) error) {
		t.Helper()
		network.Stall(testenv.ToClient)
		testenv.Eventually(t, patience, func() error { // on a busy machine the request may not be sent in time
			wantError(t, what, call(brief(t)), coord.ErrUnavailable)
			is, _, err := conn.Exists(w.root + path)
			if err == nil && !is {
				err = fmt.Errorf("no node %s", path)
			}
			return err
		})
		network.Reset()
		network.Heal()
	}
	// A registration starts with a read, whose reply must arrive.
	first := stat(t, conn, w.root+"/conts")
	if first.NumChildren != 0 {
		t.Fatalf("got %d registrations, want none", first.NumChildren)
	}
	lead := func(ctx context.Context) error { _, err := s.Lead(ctx, "o1"); return err }
	lose("lead", "/orchestrator", lead)
	testenv.Eventually(t, patience, func() error {
		leads, err := s.Lead(t.Context(), "o1")
		if err == nil && !leads {
			t.Fatal("lead: got false, want true: it has the place since the lost reply")
		}
		return err
	})
	set := func(ctx context.Context) error { return s.SetSlaveCount(ctx, 5, 0) }
	lose("set", "/slavecount", set)
	testenv.Eventually(t, patience, func() error {
		n, version, err := s.SlaveCount(t.Context())
		if err == nil && (n != 5 || version != 1) {
			t.Fatalf("slave count: got %d, version %d, want 5, version 1", n, version)
		}
		return err
	})
	wantError(t, "set again", set(t.Context()), coord.ErrVersion)
	// A node that this session owns is its registration, whichever call created it.
	register(t, s, m)
	register(t, s, m)
}

// Close ends in time whatever the server does, and ends calls in flight.
func TestClose_ServerSilent_Ends(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, network := open(t, w)
	network.Cut()
	waiting := make(chan error, 1)
	go func() { // ends with the session
		_, err := s.Members(t.Context())
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	wantError(t, "call that waited", <-waiting, coord.ErrSessionLost)
	network.Heal()
}

// A session that the server ended is not replaced silently: the client makes no further connection.
func TestSession_Expired_StaysLost(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	s, network := open(t, w)
	b, _ := open(t, w)
	register(t, s, coord.Member{PID: 1, Worker: "w1"})
	network.Cut()
	testenv.Eventually(t, patience, func() error {
		members, err := b.Members(t.Context())
		if err == nil && len(members) != 0 {
			err = errors.New("it is still registered")
		}
		return err
	})
	network.Heal()
	testenv.Eventually(t, patience, func() error {
		if err := s.Register(t.Context(), coord.Member{PID: 1, Worker: "w1"}); !errors.Is(err, coord.ErrSessionLost) {
			return fmt.Errorf("got error %w, want %w", err, coord.ErrSessionLost)
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	// The connection that reported the loss was its last.
	if members, err := b.Members(t.Context()); len(members) != 0 || err != nil {
		t.Errorf("members: got %v and error %v, want none", members, err)
	}
}

// gone reports whether the server returns that there is no such node.
func gone(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	is, _, err := conn.Exists(path)
	return err == nil && !is
}
