package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of workertest.Rows

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker"
)

var seed = flag.Uint64("seed", 0, "seed of the property tests; 0 takes another one each time")

// chaos loses, repeats and reorders the broadcasts to each subscriber of syncQ.
type chaos struct {
	mu   sync.Mutex
	rnd  *rand.Rand
	held map[string][]byte
}

func (c *chaos) fault(subscriber string, body []byte) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	deliver := [][]byte{body}
	switch c.rnd.IntN(5) {
	case 0:
		return nil
	case 1:
		deliver = append(deliver, body)
	case 2:
		c.held[subscriber], deliver = body, nil
		return deliver
	}
	if late, ok := c.held[subscriber]; ok {
		deliver = append(deliver, late)
		delete(c.held, subscriber)
	}
	return deliver
}

// history is what persdb has committed: how many rows table n has at each seq.
type history struct {
	mu    sync.Mutex // guards the fields below
	rows  map[dbaas.Seq]int
	last  dbaas.Seq
	moved chan struct{} // closed and replaced when last moves
}

func (h *history) committed(c dbaas.Commit) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Entry == nil {
		return nil
	}
	n := h.rows[h.last]
	for _, r := range c.Results {
		if r.Seq == c.Entry.Seq {
			n++ // every operation begins with one new row of n
		}
	}
	h.last = c.Entry.Seq
	h.rows[h.last] = n
	close(h.moved)
	h.moved = make(chan struct{})
	return nil
}

// at waits for a position that a reader has seen before committed was called for it.
func (h *history) at(seq dbaas.Seq) int {
	for over := time.After(limit); ; {
		h.mu.Lock()
		rows, ok, moved := h.rows[seq], seq <= h.last, h.moved
		h.mu.Unlock()
		if ok {
			return rows
		}
		select {
		case <-moved:
		case <-over:
			return -1
		}
	}
}

func (h *history) newest() dbaas.Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// world is a cluster that random events happen to.
type world struct {
	*cluster
	rnd     *rand.Rand
	history *history
	master  *node
	slaves  []*node
	nextPID int
	acked   dbaas.Seq
}

// tuned configures a worker that detects lost broadcasts soon and verifies itself all the time; whatever happens,
// verification must never raise a false alarm.
func tuned(c *worker.Config) {
	c.Replica.AntiEntropy, c.Replica.NudgeAfter = 30*time.Millisecond, 2*time.Millisecond
	c.Replica.VerifyEvery = time.Millisecond
}

func (w *world) pid() int {
	w.nextPID++
	return w.nextPID
}

// randomOperation adds the next row of n, and changes rows of m at random.
func (w *world) randomOperation() dbaas.Operation {
	statements := []dbaas.Statement{{SQL: "INSERT INTO n(i, v) SELECT coalesce(max(i),0)+1, hex(randomblob(4)) FROM n"}}
	k := dbaas.Integer(int64(w.rnd.IntN(20)))
	for range w.rnd.IntN(3) {
		statements = append(statements, []dbaas.Statement{
			{SQL: "INSERT INTO m(k, x) VALUES(?, random()) ON CONFLICT DO UPDATE SET x=x+1", Args: []dbaas.Value{k}},
			{SQL: "DELETE FROM m WHERE k=?", Args: []dbaas.Value{k}},
			{SQL: "UPDATE m SET k=k+100, x=NULL WHERE k<? AND k+100 NOT IN (SELECT k FROM m)", Args: []dbaas.Value{k}},
			{SQL: "INSERT INTO m(k, x) VALUES(1, 1), (1, 2)"}, // always fails
		}[w.rnd.IntN(4)])
	}
	op := operation(statements...)
	op.SeenSeq = w.acked
	return op
}

// write writes a few operations and retries with the same ids until they are answered.
func (w *world) write() {
	var ops []dbaas.Operation
	for range 1 + w.rnd.IntN(4) {
		ops = append(ops, w.randomOperation())
	}
	testenv.Eventually(w.t, limit, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err := w.cluster.write(ctx, ops...)
		for _, one := range r {
			if err == nil && one.Code != dbaas.CodeOK {
				err = fmt.Errorf("operation: %+v", one)
			}
			w.acked = max(w.acked, one.Seq)
		}
		return err
	})
}

// checkRead reads from any slave and compares the result with the history.
func (w *world) checkRead(minSeq dbaas.Seq) error {
	var r []dbaas.ReadResult
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		var err error
		r, err = w.read(ctx, mq.ReadQ, nil, query(countSQL, minSeq), query(countSQL, 0), query(countSQL, minSeq))
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) { // the slave that held the read may have died
			return err
		}
	}
	for i, one := range r {
		var rows []struct{ C, M int }
		if err := json.Unmarshal(one.Body, &rows); err != nil || one.Code != dbaas.CodeOK {
			return fmt.Errorf("read %d: %+v, %w", i, one, err)
		}
		if want := w.history.at(one.Seq); rows[0].C != want || rows[0].M != want {
			return fmt.Errorf("read at %d sees %d rows up to %d, want exactly 1..%d", one.Seq, rows[0].C, rows[0].M, want)
		}
		if i != 1 && one.Seq < minSeq {
			return fmt.Errorf("read at %d, wanted at least %d", one.Seq, minSeq)
		}
	}
	return nil
}

// readBeside reads until stop is closed and returns the first error it finds.
func (w *world) readBeside(stop <-chan struct{}) <-chan error {
	out := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				out <- nil
				return
			default:
			}
			if err := w.checkRead(w.history.newest()); err != nil {
				out <- err
				return
			}
		}
	}()
	return out
}

// replaceSlave drains or kills one slave and starts another.
func (w *world) replaceSlave() {
	i := w.rnd.IntN(len(w.slaves))
	old := w.slaves[i]
	if w.rnd.IntN(2) == 0 {
		old.Kill()
	} else {
		old.Drain()
	}
	_ = old.wait() // killed or nil
	w.slaves[i] = w.slave(w.pid(), tuned)
}

// replaceMaster kills the master and promotes a slave.
func (w *world) replaceMaster() {
	w.master.Kill()
	_ = w.master.wait() // killed
	i := w.rnd.IntN(len(w.slaves))
	w.slaves[i].assign(dbaas.RoleMaster, w.claim())
	w.master = w.slaves[i]
	w.slaves[i] = w.slave(w.pid(), tuned)
}

// Whatever is lost, repeated or reordered on syncQ and whichever workers die, every read sees exactly a prefix of the
// log, and at rest every replica equals persdb, row by row.
func TestCluster_RandomFaults_ReplicasArePrefixesAndConverge(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d (run again with -seed)", s)
	rnd := rand.New(rand.NewPCG(s, s))
	c := newCluster(t, 0)
	c.store.Write(dbaas.Statement{SQL: "CREATE TABLE m (k INTEGER PRIMARY KEY, x INTEGER) STRICT"})
	h := &history{rows: map[dbaas.Seq]int{1: 0}, last: 1, moved: make(chan struct{})}
	c.store.LoseAnswers(h.committed)
	faults := &chaos{rnd: rand.New(rand.NewPCG(s, 1)), held: map[string][]byte{}}
	c.broker.SetSyncFault(faults.fault)
	w := &world{cluster: c, rnd: rnd, history: h}
	w.master = c.master(w.pid(), tuned)
	for range 2 {
		w.slaves = append(w.slaves, c.slave(w.pid(), tuned))
	}
	stop := make(chan struct{})
	beside := w.readBeside(stop)
	for range 100 {
		switch p := rnd.IntN(100); {
		case p < 70:
			w.write()
		case p < 85:
			if err := w.checkRead(w.acked); err != nil {
				t.Fatal(err)
			}
		case p < 91:
			w.replaceSlave()
		case p < 94:
			w.replaceMaster()
		default:
			c.store.Trim()
		}
	}
	close(stop)
	if err := <-beside; err != nil {
		t.Error(err)
	}
	w.rest()
}

// rest waits until every replica is at persdb's head, and compares everything.
func (w *world) rest() {
	w.t.Helper()
	want, err := w.store.Hashes(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	wantRows, err := workertest.Rows(w.t, w.store.Path())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range append([]*node{w.master}, w.slaves...) {
		n.applied(want.Seq)
		got, err := n.Hashes(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("%s: hashes (-persdb +replica):\n%s", n.id, diff)
		}
		var files []string
		testenv.Eventually(w.t, limit, func() (err error) { // The old file is removed after readers have the new file.
			if files, err = filepath.Glob(filepath.Join(n.dir, "*.db")); len(files) != 1 {
				err = fmt.Errorf("%s: got files %v, want one: %w", n.id, files, err)
			}
			return err
		})
		rows, err := workertest.Rows(w.t, files[0])
		if err != nil {
			w.t.Fatal(err)
		}
		if diff := cmp.Diff(wantRows, rows); diff != "" {
			w.t.Errorf("%s: rows (-persdb +replica):\n%s", n.id, diff)
		}
		if d := n.Status().Counters["diverged"]; d != 0 {
			w.t.Errorf("%s: diverged %d times, want 0", n.id, d)
		}
	}
}
