package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/tests/history"
)

const (
	// callLimit is the time that a call has until its deadline. lateBy is how long after the deadline its answer may come.
	callLimit = 3 * time.Second
	lateBy    = 50 * time.Millisecond
	// thinkTime is the longest pause between two calls of a client.
	thinkTime = 5 * time.Second
	registers = 3
	sets      = 2
)

// seen is what a read saw: how many effects there were at a position.
type seen struct {
	seq   dbaas.Seq
	count int
}

// client makes calls one after the other.
type client struct {
	w       *world
	name    string
	rnd     *rand.Rand
	history *history.Client
	calls   int
	last    dbaas.Seq         // of its own writes: no later read may see an older state
	values  map[string]string // of the registers, as the client last saw them
}

// createTables is the first write.
func (w *world) createTables() {
	statements := []dbaas.Statement{
		{SQL: "CREATE TABLE effects(n INTEGER PRIMARY KEY, name TEXT NOT NULL, k TEXT)"},
		{SQL: "CREATE TABLE registers(k TEXT NOT NULL PRIMARY KEY, v NOT NULL)"},
		{SQL: "INSERT INTO registers VALUES('counter', 0)"},
		{SQL: marksTable},
	}
	for i := range registers {
		statements = append(statements, dbaas.Statement{SQL: "INSERT INTO registers VALUES(?, '')", Args: []dbaas.Value{dbaas.Text(register(i))}})
	}
	op := dbaas.Operation{ID: dbaas.NewOpID(w.orchestratorNow()), Atomic: true, Statements: statements}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := w.pick(w0(w.seed, "tables")).dispatcher.Write(context.Background(), op)
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			w.fail(fmt.Errorf("the first write: %w", err))
			return
		}
	}
}

func register(i int) string { return "r" + strconv.Itoa(i) }

// startClients runs n clients until the returned function is called, which waits for them.
func (w *world) startClients(n int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		c := &client{w: w, name: name, rnd: w0(w.seed, name), history: w.history.Client(), values: map[string]string{}}
		running.Go(func() { c.run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// run makes calls until ctx ends: most of the time some, sometimes many at once.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := time.Duration(c.rnd.Int64N(int64(thinkTime)))
		if c.rnd.IntN(3) == 0 {
			pause /= 100
		}
		sleep(ctx, pause)
		c.calls++
		switch p := c.rnd.IntN(10); {
		case p < 4:
			c.write(ctx)
		case p < 5:
			c.queue()
		case p < 8:
			c.read()
		default:
			c.readLinearizable()
		}
	}
}

// sleep waits for d or for ctx's end.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// newWrite draws a write: it inserts an effect with a unique name and increments a counter. The effect may be a member of
// a set, and some writes change a register as well.
func (c *client) newWrite() (dbaas.Operation, history.Call) {
	name := fmt.Sprintf("%s-%d", c.name, c.calls)
	call := history.Call{Kind: history.Write, Key: register(c.rnd.IntN(registers)), Value: name}
	set := dbaas.Value{}
	change := dbaas.Statement{SQL: "UPDATE registers SET v=? WHERE k=?", Args: []dbaas.Value{dbaas.Text(name), dbaas.Text(call.Key)}}
	statements := []dbaas.Statement{{SQL: "UPDATE registers SET v=v+1 WHERE k='counter'"}}
	switch c.rnd.IntN(3) {
	case 0:
		call.Kind, call.Old = history.Swap, c.values[call.Key]
		change.SQL += " AND v=?"
		change.Args = append(change.Args, dbaas.Text(call.Old))
		statements = append(statements, change)
	case 1:
		call.Kind, call.Key = history.Add, "s"+strconv.Itoa(c.rnd.IntN(sets))
		set = dbaas.Text(call.Key)
	default:
		statements = append(statements, change)
	}
	statements = append(statements, dbaas.Statement{SQL: "INSERT INTO effects(name, k) VALUES(?, ?)", Args: []dbaas.Value{dbaas.Text(name), set}})
	return dbaas.Operation{ID: dbaas.NewOpID(c.w.orchestratorNow()), Atomic: true, Statements: statements}, call
}

// write makes one write. A write with an idempotency key is repeated while its outcome is not known, and at some point
// given up. Sometimes the client gives up a try early and repeats it, and sometimes it sends the write to two
// orchestrators at once.
func (c *client) write(ctx context.Context) {
	op, call := c.newWrite()
	name := call.Value
	c.w.sent(op.ID)
	pending := c.history.Begin(call)
	maybe := false
	patience := 0
	if op.Resent = c.rnd.IntN(4) > 0; op.Resent {
		patience = c.rnd.IntN(6)
	}
	for try := 0; ; try++ {
		send := c.send
		if op.Resent && c.rnd.IntN(3) == 0 {
			send = c.sendTwice
		}
		result, code := send(c.w.pick(c.rnd), op, c.haste(op.Resent))
		switch code { //nolint:exhaustive // send has reported all other codes as errors.
		case dbaas.CodeOK:
			c.last = max(c.last, result.Seq)
			pending.Answered(history.Answer{Done: result.Statements[1].RowsAffected == 1})
			c.values[call.Key] = call.Value
			c.w.ledger.Acked(name)
			return
		case dbaas.CodeUnknown:
			maybe = true
		}
		if try < patience && ctx.Err() == nil {
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		if maybe {
			c.history.Unknown(pending)
			c.w.ledger.Unknown(name)
		} else {
			pending.Refused()
			c.w.ledger.Refused(name)
		}
		return
	}
}

// haste draws how long the client waits for an answer.
func (c *client) haste(keyed bool) time.Duration {
	if keyed && c.rnd.IntN(4) == 0 {
		return time.Duration(1 + c.rnd.Int64N(int64(callLimit)))
	}
	return callLimit
}

// sendTwice makes one try of a write at two orchestrators at once, and returns the better answer.
func (c *client) sendTwice(o *orchestrator, op dbaas.Operation, patience time.Duration) (dbaas.OperationResult, dbaas.Code) {
	type answer struct {
		result dbaas.OperationResult
		code   dbaas.Code
	}
	twin, other := make(chan answer, 1), c.w.pick(c.rnd)
	go func() { // ends with the write
		result, code := c.send(other, op, callLimit)
		twin <- answer{result, code}
	}()
	result, code := c.send(o, op, patience)
	second := <-twin
	if diff := cmp.Diff(result, second.result); code == dbaas.CodeOK && second.code == dbaas.CodeOK && diff != "" {
		c.w.fail(fmt.Errorf("write %s: the two orchestrators gave different answers (-first +second):\n%s", op.ID, diff))
	}
	if code == dbaas.CodeOK || second.code == dbaas.CodeUnavailable {
		return result, code
	}
	return second.result, second.code
}

// send makes one try of a write at an orchestrator.
func (c *client) send(o *orchestrator, op dbaas.Operation, patience time.Duration) (dbaas.OperationResult, dbaas.Code) {
	if o == nil {
		return dbaas.OperationResult{}, dbaas.CodeUnavailable
	}
	began := time.Now()
	op.Deadline = began.Add(callLimit)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := o.dispatcher.Write(ctx, op)
	c.inTime("write", began)
	if err == nil {
		for _, s := range result.Statements {
			if s.Code != dbaas.CodeOK {
				c.w.fail(fmt.Errorf("write %s: statement failed: %+v", op.ID, s))
				return result, dbaas.CodeInternal
			}
		}
	}
	code := dbaas.CodeOf(err)
	if !slices.Contains([]dbaas.Code{dbaas.CodeOK, dbaas.CodeUnavailable, dbaas.CodeUnknown}, code) {
		c.w.fail(fmt.Errorf("write %s: got %w, want ok, unavailable or unknown", op.ID, err))
	}
	return result, code
}

// inTime checks that a call that began then has ended by its deadline.
func (c *client) inTime(what string, began time.Time) {
	if took := time.Since(began); took > callLimit+lateBy {
		c.w.fail(fmt.Errorf("%s of %s: answered after %v, want at most %v", what, c.name, took, callLimit))
	}
}

// ask reads, and returns false if the read was refused in an allowed way.
func (c *client) ask(read dbaas.Read, rows any) (dbaas.ReadResult, bool) {
	o := c.w.pick(c.rnd)
	if o == nil {
		return dbaas.ReadResult{}, false
	}
	began := time.Now()
	read.Deadline, read.Format = began.Add(callLimit), dbaas.FormatObjects
	read.Recent = !read.Linearizable // as the API does
	result, err := o.cache.Read(context.Background(), read)
	c.w.answered(result.Level)
	c.inTime("read", began)
	switch code := dbaas.CodeOf(err); code { //nolint:exhaustive // all other codes are wrong.
	case dbaas.CodeOK:
	case dbaas.CodeUnavailable, dbaas.CodeTimeout, dbaas.CodeNotCaughtUp:
		return result, false
	default:
		c.w.fail(fmt.Errorf("read of %s: got %w, want ok, unavailable, timeout or not caught up", c.name, err))
		return result, false
	}
	if result.Seq < read.MinSeq {
		c.w.fail(fmt.Errorf("read of %s: got position %d, want at least %d", c.name, result.Seq, read.MinSeq))
	}
	if err := json.Unmarshal(result.Body, rows); err != nil {
		c.w.fail(fmt.Errorf("read of %s: %s: %w", c.name, result.Body, err))
		return result, false
	}
	return result, true
}

// read reads the number of effects. checkViews compares it with the log.
func (c *client) read() {
	var rows []struct{ C, N int }
	read := dbaas.Read{Statements: []dbaas.Statement{{SQL: "SELECT count(*) AS c, (SELECT v FROM registers WHERE k='counter') AS n FROM effects"}}}
	if c.rnd.IntN(2) == 0 {
		read.MinSeq = c.last
	}
	result, ok := c.ask(read, &rows)
	if !ok {
		return
	}
	if len(rows) != 1 || rows[0].C != rows[0].N {
		c.w.fail(fmt.Errorf("read of %s at %d: got %+v, want as many effects as the counter says", c.name, result.Seq, rows))
		return
	}
	c.w.saw(seen{seq: result.Seq, count: rows[0].C})
}

// readLinearizable reads a register or a set.
func (c *client) readLinearizable() {
	var rows []struct{ X string }
	call := history.Call{Kind: history.Members, Key: "s" + strconv.Itoa(c.rnd.IntN(sets))}
	sql := "SELECT name AS x FROM effects WHERE k=?"
	if c.rnd.IntN(2) == 0 {
		call = history.Call{Kind: history.Read, Key: register(c.rnd.IntN(registers))}
		sql = "SELECT v AS x FROM registers WHERE k=?"
	}
	pending := c.history.Begin(call)
	_, ok := c.ask(dbaas.Read{
		Linearizable: true, Statements: []dbaas.Statement{{SQL: sql, Args: []dbaas.Value{dbaas.Text(call.Key)}}},
	}, &rows)
	if !ok {
		pending.Refused()
		return
	}
	var a history.Answer
	for _, r := range rows {
		a.Value = r.X
		a.Members = append(a.Members, r.X)
	}
	c.values[call.Key] = a.Value
	pending.Answered(a)
}

func (w *world) sent(id dbaas.OpID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = append(w.ids, id)
}

func (w *world) saw(s seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.views = append(w.views, s)
}
