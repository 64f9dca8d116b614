package zookeeper_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/testkit/coordtest"
	"rideshare/internal/testkit/testenv"
)

// sessionTimeout is the session timeout of tests: six ticks. A connect attempt without an answer takes half of it,
// and the library sleeps a second before the next attempt, which must come in time.
const sessionTimeout = 6 * time.Second

func TestMain(m *testing.M) { testenv.NoLeaksMain(m) }

// world is one part of a ZooKeeper server, with a separate network for each session.
type world struct {
	t       testing.TB
	service *testenv.Service // nil if it is shared and must not be broken
	url     string
	root    string
	log     *slog.Logger

	mu      sync.Mutex // guards proxies
	proxies map[coord.Session]*testenv.Network
}

// newWorld returns an empty part of the server there, which is removed after the test.
func newWorld(tb testing.TB, url string, service *testenv.Service) *world {
	tb.Helper()
	w := &world{
		t: tb, service: service, url: url, root: "/rideshare-test/" + rand.Text(),
		log: slog.New(slog.NewTextHandler(tb.Output(), nil)), proxies: map[coord.Session]*testenv.Network{},
	}
	tb.Cleanup(w.clear)
	return w
}

// sharedWorld is a world on the server that all tests share.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, testenv.ZooKeeper(t), nil)
}

// Open implements coord.Coordinator, through a separate proxy for each session.
func (w *world) Open(ctx context.Context) (coord.Session, error) {
	p := testenv.NewNetwork(w.t, w.url)
	k, err := zookeeper.New(zookeeper.Config{URL: "zk://" + p.Addr() + w.root, SessionTimeout: sessionTimeout, Log: w.log})
	if err != nil {
		return nil, err
	}
	s, err := k.Open(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxies[s] = p
	return s, nil
}

func (w *world) proxy(s coord.Session) *testenv.Network {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proxies[s]
}

func (w *world) Abandon(_ testing.TB, s coord.Session) { w.proxy(s).Abandon() }
func (w *world) Cut(_ testing.TB, s coord.Session)     { w.proxy(s).Cut() }
func (w *world) Heal(_ testing.TB, s coord.Session)    { w.proxy(s).Heal() }

func (w *world) Stop(tb testing.TB) {
	tb.Helper()
	w.service.Kill(tb)
}

func (w *world) Start(tb testing.TB) {
	tb.Helper()
	w.service.Start(tb)
}

func (w *world) Pause(tb testing.TB) {
	tb.Helper()
	w.service.Pause(tb)
}

func (w *world) Resume(tb testing.TB) {
	tb.Helper()
	w.service.Resume(tb)
}

// witness returns a plain connection to the server, which shows the actual nodes.
func (w *world) witness() *zk.Conn {
	w.t.Helper()
	return connect(w.t, testenv.NewNetwork(w.t, w.url).Addr())
}

// connect returns a plain connection.
func connect(tb testing.TB, servers ...string) *zk.Conn {
	tb.Helper()
	conn, events, err := zk.Connect(servers, sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn.Close()
		for range events { // closed when the library is done
		}
	})
	return conn
}

// quiet is a logger for the witness.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// clear removes what the test created.
func (w *world) clear() {
	if err := removeAll(w.witness(), w.root); err != nil {
		w.t.Errorf("remove %s: %v", w.root, err)
	}
}

func removeAll(conn *zk.Conn, path string) error {
	names, _, err := conn.Children(path)
	for _, name := range names {
		err = errors.Join(err, removeAll(conn, path+"/"+name))
	}
	if err == nil {
		err = conn.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// The coordinator on a real ZooKeeper keeps every promise of coord.Session, also
// when the server is killed (sessions survive) and frozen (they do not).
func TestConformance(t *testing.T) {
	t.Parallel()
	service := testenv.StartZooKeeper(t)
	coordtest.Run(t, coordtest.Features{LateRequests: true}, func(tb testing.TB) coordtest.World {
		tb.Helper()
		return newWorld(tb, service.URL, service)
	})
}
