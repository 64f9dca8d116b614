package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

// mark is one operation of the generated SQL and what its client knows about it. The operation's last statement inserts a row
// with its name.
type mark struct {
	name   string
	op     dbaas.Operation
	result *dbaas.OperationResult // of the first answer
	queued bool                   // the operation was accepted into a queue
	maybe  bool                   // some try had an unknown outcome
}

// anyClient sends generated SQL, one operation after the other: to one orchestrator, to two at once, or queued.
type anyClient struct {
	w     *world
	rnd   *rand.Rand
	gen   *sqlgen.Generator
	sent  map[int]*mark // by the generator's number
	marks []*mark
}

const marksTable = "CREATE TABLE marks(id INTEGER PRIMARY KEY, name TEXT NOT NULL)"

// startAnyClient runs the client until the returned function is called, which waits for it.
func (w *world) startAnyClient() (end func()) {
	rnd := w0(w.seed, "any SQL")
	w.any = &anyClient{w: w, rnd: rnd, gen: sqlgen.New(rnd.Uint64(), rnd.IntN(2) == 0), sent: map[int]*mark{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		w.any.write(ctx, w.any.gen.Begin())
		for ctx.Err() == nil {
			sleep(ctx, time.Duration(rnd.Int64N(int64(thinkTime))))
			w.any.write(ctx, w.any.gen.Operation())
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// mark returns the operation to send. If the generator repeats an operation, mark returns the same mark again.
func (c *anyClient) mark(o sqlgen.Operation) *mark {
	op := dbaas.Operation{Atomic: o.Atomic, Statements: o.SQL()}
	m := &mark{name: fmt.Sprintf("any-%d", len(c.marks))}
	if before := c.sent[o.Number]; before != nil && cmp.Equal(before.op.Statements[:len(before.op.Statements)-1], op.Statements) {
		return before
	}
	op.ID, op.Resent = dbaas.NewOpID(c.w.orchestratorNow()), true
	op.Statements = append(op.Statements, dbaas.Statement{SQL: "INSERT INTO marks(name) VALUES(?)", Args: []dbaas.Value{dbaas.Text(m.name)}})
	op.Fingerprint = wire.FingerprintOf(op.Atomic, op.Statements)
	m.op = op
	c.sent[o.Number] = m
	c.marks = append(c.marks, m)
	return m
}

// write sends one operation, and sends it again while its outcome is not known; at some point it gives up.
func (c *anyClient) write(ctx context.Context, o sqlgen.Operation) {
	m := c.mark(o)
	way := c.rnd.IntN(5)
	for patience := c.rnd.IntN(6); ; patience-- {
		ended := false
		switch way {
		case 0:
			ended = c.twice(m)
		case 1:
			ended = c.enqueue(m)
		default:
			ended = c.answered(m, c.send(m, c.w.pick(c.rnd)))
		}
		if ended || patience <= 0 || ctx.Err() != nil {
			return
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// answer is the answer to one call of an orchestrator.
type answer struct {
	result dbaas.OperationResult
	err    error
}

// send sends the operation to an orchestrator.
func (c *anyClient) send(m *mark, o *orchestrator) answer {
	if o == nil {
		return answer{err: dbaas.ErrUnavailable}
	}
	op := m.op
	op.Deadline = time.Now().Add(callLimit)
	result, err := o.dispatcher.Write(context.Background(), op)
	return answer{result, err}
}

// twice sends the operation through two orchestrators, or twice through one, at the same time.
func (c *anyClient) twice(m *mark) bool {
	ways := []*orchestrator{c.w.pick(c.rnd), c.w.pick(c.rnd)}
	answers := make([]answer, len(ways))
	var both sync.WaitGroup
	for i, o := range ways {
		both.Go(func() { answers[i] = c.send(m, o) })
	}
	both.Wait()
	first := c.answered(m, answers[0])
	return c.answered(m, answers[1]) || first
}

// enqueue sends the operation as an asynchronous write.
func (c *anyClient) enqueue(m *mark) bool {
	o := c.w.pick(c.rnd)
	if o == nil {
		return false
	}
	_, err := o.dispatcher.Enqueue(context.Background(), m.op)
	if err == nil {
		m.queued = true
		return true
	}
	return c.answered(m, answer{err: err})
}

// answered records an answer and reports whether it is final.
func (c *anyClient) answered(m *mark, a answer) bool {
	switch code := dbaas.CodeOf(a.err); code { //nolint:exhaustive // all other codes are wrong.
	case dbaas.CodeOK:
		if m.result == nil {
			m.result = &a.result
		} else if diff := cmp.Diff(m.result, &a.result); diff != "" {
			c.w.fail(fmt.Errorf("write %s, sent again, has another answer (-first +again):\n%s", m.name, diff))
		}
		return true
	case dbaas.CodeUnknown:
		m.maybe = true
	case dbaas.CodeUnavailable:
	default:
		c.w.fail(fmt.Errorf("write %s: got %w, want ok, unavailable or unknown", m.name, a.err))
	}
	return false
}

// kept reports whether the operation's last statement succeeded according to the answer.
func (m *mark) kept() bool {
	n := len(m.op.Statements)
	return len(m.result.Statements) == n && m.result.Statements[n-1].Code == dbaas.CodeOK
}

// compare checks how often the database has the operation's row.
func (m *mark) compare(found int) error {
	least, most := 0, 0
	switch {
	case m.result != nil && m.kept():
		least, most = 1, 1
	case m.result != nil:
	case m.queued || m.maybe:
		most = 1
	}
	if found < least || found > most {
		return fmt.Errorf("write %s was done %d times, want %d to %d (answered: %v, unknown: %v)", m.name, found, least, most, m.result != nil, m.queued || m.maybe)
	}
	return nil
}

// checkMarks compares the database with the answers that the client got: each acknowledged operation must have its effect once,
// and the log must still have its first answer.
func (w *world) checkMarks() error {
	conn, err := sqlite.Open(filepath.Join(w.dir, "persdb", commitlog.FileName), sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a connection that only reads loses nothing if Close fails
	found := map[string]int{}
	if err := conn.Query("SELECT name FROM marks", func(r sqlite.Row) error {
		found[r.Text(0)]++
		return nil
	}); err != nil {
		return err
	}
	var wrong []error
	for _, m := range w.any.marks {
		kept, err := w.store.Lookup(context.Background(), m.op.ID)
		switch {
		case m.result == nil && err == nil:
			m.result = &kept
		case m.result != nil && err != nil:
			wrong = append(wrong, fmt.Errorf("write %s in the log: %w", m.name, err))
		}
		wrong = append(wrong, m.compare(found[m.name]))
		if m.result == nil || err != nil {
			continue
		}
		if diff := cmp.Diff(m.result, &kept); diff != "" {
			wrong = append(wrong, fmt.Errorf("write %s has another answer in the log (-client +log):\n%s", m.name, diff))
		}
	}
	return errors.Join(wrong...)
}

// serves waits until a write succeeds: whatever the clocks show by now, the system must accept writes again.
func (w *world) serves() {
	rnd := w0(w.seed, "last write")
	op := dbaas.Operation{ID: dbaas.NewOpID(w.orchestratorNow()), Statements: []dbaas.Statement{{SQL: "UPDATE marks SET name=name WHERE 0"}}}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := w.pick(rnd).dispatcher.Write(context.Background(), op)
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			w.fail(fmt.Errorf("the last write: %w", err))
			return
		}
	}
}

// clockSteps moves a clock by seconds or by years until its next step, or sets it right.
func clockSteps(clock func(*world) *atomic.Int64) func(*world, *rand.Rand) func() {
	return func(w *world, rnd *rand.Rand) func() {
		steps := []time.Duration{0, 20 * time.Second, 3 * time.Hour, 10 * 365 * 24 * time.Hour}
		step := steps[rnd.IntN(len(steps))]
		if rnd.IntN(2) == 0 {
			step = -step
		}
		clock(w).Store(int64(step))
		return nil
	}
}

func persdbClock(w *world) *atomic.Int64       { return &w.stepped }
func orchestratorClock(w *world) *atomic.Int64 { return &w.idsStepped }

// persdbNow is persdb's clock.
func (w *world) persdbNow() time.Time { return time.Now().Add(time.Duration(w.stepped.Load())) }

// orchestratorNow is the orchestrators' clock. Only the ids of operations depend on it: deadlines use a clock that does not
// step.
func (w *world) orchestratorNow() time.Time {
	return time.Now().Add(time.Duration(w.idsStepped.Load()))
}
