package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/zktest"
)

// ensemble is a real ensemble, and the part of it that one test uses.
type ensemble struct {
	*zktest.Ensemble
	t    *testing.T
	root string
}

// client is a session on the ensemble with a registration.
type client struct {
	coord.Session
	member coord.Member
	path   string
	before *zk.Stat // of its registration
}

// Sessions and registrations outlive every fault that leaves a majority, or that ends before anybody ends sessions. The
// subtests break one ensemble after the other.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	servers := zktest.Start(t)
	for _, c := range []struct {
		name string
		test func(*ensemble)
	}{
		{"LeaderKilled", leaderKilled},
		{"LeaderPaused", leaderPaused},
		{"MajorityKilled", majorityKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers.AwaitWhole(t)
			e := &ensemble{Ensemble: servers, t: t, root: "/" + c.name}
			c.test(e)
		})
	}
}

// The clients of a killed leader go to another server at once.
func leaderKilled(e *ensemble) {
	leader := e.Leader(e.t)
	clients := e.oneEach()
	e.Servers[leader].Kill(e.t)
	e.wantServing(clients)
	e.wantMoved(leader, clients[leader])
	e.Servers[leader].Start(e.t)
}

// A paused leader keeps its connections open, and accepts more. Its clients leave it before their sessions end.
func leaderPaused(e *ensemble) {
	leader := e.Leader(e.t)
	clients := e.oneEach()
	e.Servers[leader].Pause(e.t)
	over := time.After(10 * time.Second)
	defer e.Servers[leader].Resume(e.t)
	e.wantServing(clients)
	e.wantMoved(leader, clients[leader])
	<-over
	e.Servers[leader].Resume(e.t)
	e.AwaitWhole(e.t)
	e.wantServing(clients)
}

// A server without a majority ends no session, however long that takes.
func majorityKilled(e *ensemble) {
	clients := e.oneEach()
	const survivor = 0
	e.Servers[1].Kill(e.t)
	e.Servers[2].Kill(e.t)
	<-time.After(8 * time.Second)
	for i, c := range clients {
		select {
		case <-c.Suspended():
		case <-time.After(patience):
			e.t.Errorf("client %d: not suspended, want suspended: 8 s are longer than its session", i)
		}
	}
	wantError(e.t, "register without a majority", clients[survivor].Register(e.t.Context(), clients[survivor].member), coord.ErrUnavailable)
	e.Servers[1].Start(e.t)
	e.Servers[2].Start(e.t)
	e.wantServing(clients)
}

// A follower that is cut off answers reads for a while. They prove nothing: its client, which reaches no other server, is
// suspended before the others see its session end.
func TestEnsemble_FollowerCutOff_SuspendedBeforeLoss(t *testing.T) {
	t.Parallel()
	e := &ensemble{Ensemble: zktest.StartCuttable(t), t: t, root: "/cut"}
	follower := (e.Leader(e.t) + 1) % len(e.Servers)
	c := e.open(e.Servers[follower].URL)
	e.register(c, follower)
	reading, end := context.WithCancel(e.t.Context())
	defer end()
	go func() { // ends with the test
		for reading.Err() == nil {
			_, _ = c.Members(reading)
			<-time.After(10 * time.Millisecond)
		}
	}()
	e.Cut(follower)
	defer e.Heal(follower)
	other := e.witness()
	testenv.Eventually(e.t, patience, func() error {
		if !gone(e.t, other, c.path) {
			return errors.New("its registration is there")
		}
		return nil
	})
	if !inDoubt(c) {
		e.t.Error("the registration is gone and its owner is not suspended")
	}
}

// witness returns a plain connection to the leader, which shows the nodes.
func (e *ensemble) witness() *zk.Conn {
	e.t.Helper()
	return connect(e.t, e.Addresses()[e.Leader(e.t)])
}

// open returns a session on the servers in a URL.
func (e *ensemble) open(url string) *client {
	e.t.Helper()
	k, err := zookeeper.New(zookeeper.Config{URL: url + e.root, SessionTimeout: sessionTimeout, Log: slog.New(slog.NewTextHandler(e.t.Output(), nil))})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	s, err := k.Open(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = s.Close() })
	return &client{Session: s}
}

func (e *ensemble) register(c *client, pid int) {
	e.t.Helper()
	c.member = coord.Member{PID: pid, Worker: dbaas.WorkerID(fmt.Sprint("w", pid))}
	c.path = fmt.Sprintf("%s/conts/cont_%d", e.root, pid)
	testenv.Eventually(e.t, patience, func() error { // a server may be slow, or the session that had the pid not be closed yet
		err := c.Register(e.t.Context(), c.member)
		if err != nil && !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, coord.ErrExists) {
			e.t.Fatalf("register %v: got %v, want nil", c.member, err)
		}
		return err
	})
	c.before = stat(e.t, e.witness(), c.path)
}

// oneEach returns one registered client for each server, connected to that server: the first in its URL. A client whose first server
// does not answer in time goes to another one: then it is opened again.
func (e *ensemble) oneEach() []*client {
	e.t.Helper()
	all := e.Addresses()
	clients := make([]*client, len(all))
	for own := range clients {
		testenv.Eventually(e.t, patience, func() error {
			c := e.open("zk://" + strings.Join(slices.Concat(all[own:], all[:own]), ","))
			e.register(c, own+1)
			if at, err := e.ServerOf(c.before.EphemeralOwner); err != nil || at != own {
				_ = c.Close()
				return fmt.Errorf("client with server %d first: got server %d and error %w, want that server", own+1, at+1, err)
			}
			clients[own] = c
			return nil
		})
	}
	return clients
}

// wantServing waits until each client's session answers. Its registration is the one that was made before the fault.
func (e *ensemble) wantServing(clients []*client) {
	e.t.Helper()
	began := time.Now()
	for i, c := range clients {
		testenv.Eventually(e.t, patience, func() error {
			ctx, cancel := context.WithTimeout(e.t.Context(), sessionTimeout)
			defer cancel()
			c.member.Applied++
			err := c.Register(ctx, c.member)
			if errors.Is(err, coord.ErrSessionLost) {
				e.t.Fatalf("client of server %d: %v", i+1, err)
			}
			return err
		})
		e.t.Logf("client of server %d was answered after %v", i+1, time.Since(began).Round(time.Millisecond))
	}
	conn := e.witness()
	for i, c := range clients {
		if after := stat(e.t, conn, c.path); after.Czxid != c.before.Czxid || after.EphemeralOwner != c.before.EphemeralOwner {
			e.t.Errorf("client of server %d: its registration was made again", i+1)
		}
	}
}

// wantMoved checks that another server leads, and that the client of the old leader has gone to another server.
func (e *ensemble) wantMoved(old int, c *client) {
	e.t.Helper()
	if leader := e.Leader(e.t); leader == old {
		e.t.Errorf("server %d leads as before the fault", leader+1)
	}
	testenv.Eventually(e.t, patience, func() error { // a server that is slow does not tell its connections
		at, err := e.ServerOf(c.before.EphemeralOwner)
		if err == nil && at == old {
			e.t.Fatalf("client of the old leader: got server %d, want another server", at+1)
		}
		return err
	})
}
