package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rideshare/internal/coord"
	coordinproc "rideshare/internal/coord/inproc"
	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	mqinproc "rideshare/internal/mq/inproc"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/internal/wire"
	"rideshare/internal/workerapi"
	"rideshare/worker"
)

const (
	schema = "CREATE TABLE n (i INTEGER PRIMARY KEY, v TEXT NOT NULL) STRICT"
	limit  = 20 * time.Second
	// callTimeout is long: the tests wait for answers, never for the timeout.
	callTimeout = 20 * time.Second
)

// cluster is a bus, a coordinator and a persdb, with workers as the test starts them.
type cluster struct {
	t      testing.TB
	broker *mqinproc.Broker
	coord  *coordinproc.Coordinator
	store  *workertest.Store
	caller *mq.Caller
	api    *workerapi.Client
	view   coord.Session
}

func newCluster(tb testing.TB, sessionTimeout time.Duration) *cluster {
	tb.Helper()
	k, err := coordinproc.New(coordinproc.Config{SessionTimeout: sessionTimeout})
	if err != nil {
		tb.Fatal(err)
	}
	c := &cluster{t: tb, broker: mqinproc.NewBroker(mqinproc.Config{}), coord: k, store: workertest.NewStore(tb, schema)}
	conn := c.broker.Dial("client")
	c.caller = mq.NewCaller(conn)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.caller.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if ended := <-done; !errors.Is(ended, context.Canceled) {
			tb.Errorf("reply queue: got %v, want context canceled", ended)
		}
	})
	if c.view, err = k.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return c
}

// node is one worker under test.
type node struct {
	*worker.Worker
	t      testing.TB
	c      *cluster
	id     dbaas.WorkerID
	url    string
	dir    string
	client *coordinproc.Client
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
	pid    int
}

// start starts a worker with quick retries. It compares heads only if change enables that.
func (c *cluster) start(pid int, change func(*worker.Config)) *node {
	c.t.Helper()
	n := &node{t: c.t, c: c, id: dbaas.WorkerID(fmt.Sprint("w", pid)), pid: pid, done: make(chan struct{}), client: c.coord.Dial()}
	n.dir = filepath.Join(c.t.TempDir(), string(n.id))
	server := httptest.NewUnstartedServer(nil)
	n.url = "http://" + server.Listener.Addr().String()
	config := worker.Config{
		ID: n.id, Dir: n.dir, Control: n.url, Bus: c.broker.Dial(string(n.id)), Coordinator: n.client, Store: c.store,
		Log: slog.New(slog.DiscardHandler), RegisterRetry: 5 * time.Millisecond, RegisterRefresh: 10 * time.Millisecond,
	}
	config.Replica.AntiEntropy, config.Replica.Backoff, config.Replica.VerifyEvery = time.Hour, time.Millisecond, -1
	config.DrainTimeout, config.Writes.SendTimeout = limit, limit
	if change != nil {
		change(&config)
	}
	n.Worker = worker.New(config)
	server.Config.Handler = n.Handler()
	server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		n.err = n.Run(ctx)
	}()
	c.t.Cleanup(func() {
		n.Kill()
		<-n.done
		cancel()
		server.Close()
	})
	if c.api == nil {
		c.api = &workerapi.Client{HTTP: server.Client()}
	}
	return n
}

// assign gives a role through the control API.
func (n *node) assign(role dbaas.Role, epoch dbaas.Epoch) {
	n.t.Helper()
	if err := n.c.api.Assign(n.t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: role, PID: n.pid, Epoch: epoch}); err != nil {
		n.t.Fatalf("assign %s to %s: %v", role, n.id, err)
	}
}

// ready waits until the worker serves in role.
func (n *node) ready(role dbaas.Role) *node {
	n.t.Helper()
	testenv.Eventually(n.t, limit, func() error {
		s, err := n.c.api.Status(n.t.Context(), n.url)
		if err != nil || !s.Ready || s.Role != role {
			return fmt.Errorf("%s: status %+v, %w", n.id, s, err)
		}
		return nil
	})
	return n
}

// slave and master start a worker and wait until it serves.
func (c *cluster) slave(pid int, change func(*worker.Config)) *node {
	c.t.Helper()
	n := c.start(pid, change)
	n.assign(dbaas.RoleSlave, 0)
	return n.ready(dbaas.RoleSlave)
}

func (c *cluster) claim() dbaas.Epoch {
	c.t.Helper()
	epoch, err := c.store.Claim(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return epoch
}

func (c *cluster) master(pid int, change func(*worker.Config)) *node {
	c.t.Helper()
	n := c.start(pid, change)
	n.assign(dbaas.RoleMaster, c.claim())
	return n.ready(dbaas.RoleMaster)
}

// wait returns what Run returned.
func (n *node) wait() error {
	n.t.Helper()
	select {
	case <-n.done:
		return n.err
	case <-time.After(limit):
		n.t.Fatalf("%s does not end", n.id)
		return nil
	}
}

// applied waits until the worker's replica is at seq.
func (n *node) applied(seq dbaas.Seq) {
	n.t.Helper()
	testenv.Eventually(n.t, limit, func() error {
		if s := n.Status(); s.CatchingUp || s.Applied != seq {
			return fmt.Errorf("%s: %+v, want position %d", n.id, s, seq)
		}
		return nil
	})
}

func insert(i int) dbaas.Statement {
	return dbaas.Statement{SQL: "INSERT INTO n(i, v) VALUES(?, ?)", Args: []dbaas.Value{dbaas.Integer(int64(i)), dbaas.Text(fmt.Sprint("v", i))}}
}

func operation(statements ...dbaas.Statement) dbaas.Operation {
	now := time.Now()
	return dbaas.Operation{ID: dbaas.NewOpID(now), Deadline: now.Add(callTimeout), Statements: statements}
}

// write sends operations in one message and returns their results.
func (c *cluster) write(ctx context.Context, ops ...dbaas.Operation) ([]dbaas.OperationResult, error) {
	body, err := wire.WriteRequest{Operations: ops}.Encode(time.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	results := make([]dbaas.OperationResult, len(ops))
	return results, c.caller.Call(ctx, mq.WriteQ, body, func(b []byte, _ bool) bool {
		r, bad := wire.DecodeWriteReply(b)
		for _, a := range r.Answers {
			results[a.Index] = a.Result
		}
		return bad != nil || r.Last
	})
}

// mustWrite writes row i and returns its position.
func (c *cluster) mustWrite(i int) dbaas.Seq {
	c.t.Helper()
	r, err := c.write(c.t.Context(), operation(insert(i)))
	if err != nil || r[0].Code != dbaas.CodeOK || r[0].Statements[0].Code != dbaas.CodeOK {
		c.t.Fatalf("write %d: %+v, %v", i, r, err)
	}
	return r[0].Seq
}

const countSQL = "SELECT count(*) AS c, coalesce(max(i),0) AS m FROM n"

func query(sql string, minSeq dbaas.Seq) dbaas.Read {
	return dbaas.Read{
		Format: dbaas.FormatObjects, MinSeq: minSeq, Deadline: time.Now().Add(callTimeout), Statements: []dbaas.Statement{{SQL: sql}},
	}
}

// read sends reads in one message. each, if set, is called with each answer as it comes.
func (c *cluster) read(ctx context.Context, q mq.Queue, each func(int, dbaas.ReadResult), reads ...dbaas.Read) ([]dbaas.ReadResult, error) {
	body, err := wire.ReadRequest{Reads: reads}.Encode(time.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	results := make([]dbaas.ReadResult, len(reads))
	return results, c.caller.Call(ctx, q, body, func(b []byte, _ bool) bool {
		if kind, bad := wire.KindOf(b); bad == nil && kind == wire.KindReadHeld {
			return false // the answers are still to come
		}
		r, bad := wire.DecodeReadReply(b)
		for _, a := range r.Answers {
			results[a.Index] = a.Result
			if each != nil {
				each(a.Index, a.Result)
			}
		}
		return bad != nil || r.Last
	})
}

func (c *cluster) mustRead(q mq.Queue, reads ...dbaas.Read) []dbaas.ReadResult {
	c.t.Helper()
	r, err := c.read(c.t.Context(), q, nil, reads...)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return r
}

// member returns the registration of pid, or coord.ErrNone.
func (c *cluster) member(pid int) (coord.Member, error) {
	members, err := c.view.Members(context.Background())
	for _, m := range members {
		if m.PID == pid {
			return m, nil
		}
	}
	return coord.Member{}, errors.Join(coord.ErrNone, err)
}

// registered waits until pid is registered in role.
func (c *cluster) registered(pid int, role dbaas.Role) coord.Member {
	c.t.Helper()
	var m coord.Member
	testenv.Eventually(c.t, limit, func() (err error) {
		if m, err = c.member(pid); err == nil && m.Role != role {
			err = fmt.Errorf("registered as %+v, want %s", m, role)
		}
		return err
	})
	return m
}

// storeFunc puts a function before each commit.
type storeFunc struct {
	worker.Store
	mu     sync.Mutex
	before func(epoch dbaas.Epoch, ops []dbaas.Operation)
}

func (s *storeFunc) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(by.Epoch, ops)
	}
	return s.Store.Commit(ctx, by, ops)
}
