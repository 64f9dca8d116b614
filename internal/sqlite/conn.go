// Package sqlite is the only access to the SQLite engine: it opens files, runs statements within their limits, and
// copies files. It has no rules of replication. internal/replication has those, and its Guard decides what clients'
// statements may do.
//
// The package binds modernc.org/sqlite/lib, the engine without cgo, directly: no existing binding offers column types,
// duplicate column names, read-only flags and sessions together (docs/adr/0001).
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Conn is one connection to one database file. It is not safe for concurrent use: one goroutine may use it at a time.
type Conn struct {
	tls         *libc.TLS
	db          uintptr
	out         uintptr // outSize bytes for the results of C functions
	mainName    uintptr // "main" in C memory
	scratch     uintptr // memory of bound values, reused by each statement
	scratchSize int
	pin         runtime.Pinner // keeps the address that callbacks receive valid

	stmts                 map[string]*Stmt // statements of this package's users
	guarded               map[string]*Stmt // statements of clients
	kept                  int64            // bytes of all in guarded
	own                   int64            // bytes of all in stmts
	extra                 string           // the statement of stmts that is kept although there is no room for it
	last                  *Stmt            // the last client statement, if it is not kept; finalized by the next Prepare
	guard                 Guard            // of the statement being prepared or run; nil: the system's own
	seen                  actions          // what the authorizer has learned since the last prepare
	denied                *dbaas.Error     // why the guard refused
	done                  <-chan struct{}  // interrupts when closed
	pace                  func()           // called repeatedly in long statements
	deadline              time.Time        // interrupts once passed; zero: none
	stopped               atomic.Bool      // interrupts
	altered               bool             // the open transaction has changed the schema
	edition               uint64           // of the schema, for SchemaEdition
	onRow                 func(*RowChange)
	change                RowChange // the argument of onRow
	looks                 uint      // number of calls of onProgress
	foreignKeys, triggers bool      // are on
	limits                Limits
	bounded               bounds // for the running statement
	meter                 meter
	functions             uintptr // the data of our functions, in C memory
	frames                walFrames
	anchor                *Stmt // pins the state that a reader's transaction sees
	queried               *Stmt // the statement that Facts describes
}

const (
	// progressOps is how many steps of the engine pass between two calls of onProgress; a point read takes fewer steps.
	progressOps = 100
	// clockEvery is how many of these calls pass between two checks of the clock, about 20 to 50 microseconds.
	clockEvery = 10
	// yieldEvery is how many of these calls pass before a statement yields to runnable goroutines. Go itself preempts the
	// statement only after 10 ms, and one request waits for a core about ten times until it is done.
	yieldEvery = 64
	// largeBytes is the value size from which one step can take milliseconds. In statements that hold as much memory,
	// every call checks the clock.
	largeBytes = 1 << 20
)

// onProgress is called by the engine inside long statements. A result other than zero interrupts the statement.
func onProgress(_ *libc.TLS, arg uintptr) int32 {
	c := ref[Conn](arg)
	if c.pace != nil {
		c.pace()
	}
	if c.meter.running && c.meter.mustEnd() {
		c.meter.stop = crowdedOut
		return 1
	}
	if c.stopped.Load() {
		return 1
	}
	if c.looks++; c.looks%yieldEvery == 0 {
		runtime.Gosched()
	}
	if c.looks%clockEvery != 0 && c.meter.used+int64(c.scratchSize) < largeBytes {
		return 0
	}
	if c.over() {
		return 1
	}
	return 0
}

// Within runs fn. Statements that fn runs on c are interrupted with CodeTimeout when ctx ends. Calls of Within nest: the
// innermost context counts.
func (c *Conn) Within(ctx context.Context, fn func() error) error {
	done := c.done
	c.done = ctx.Done()
	defer func() { c.done = done }()
	return fn()
}

// Until runs fn. Statements that fn runs on c are interrupted with CodeTimeout at the deadline, or at the enclosing
// deadline if that is earlier. The zero time adds no deadline.
func (c *Conn) Until(deadline time.Time, fn func() error) error {
	if deadline.IsZero() || (!c.deadline.IsZero() && c.deadline.Before(deadline)) {
		return fn()
	}
	before := c.deadline
	c.deadline = deadline
	defer func() { c.deadline = before }()
	return fn()
}

// Close ends the connection.
func (c *Conn) Close() error {
	if c.tls == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.finalize()
	}
	for _, s := range c.guarded {
		s.finalize()
	}
	c.dropLast()
	rc := lib.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.out)
	libc.Xfree(c.tls, c.mainName)
	libc.Xfree(c.tls, c.scratch)
	libc.Xfree(c.tls, c.functions)
	libc.Xfree(c.tls, c.frames.buf)
	c.meter.end()
	c.meter.unregister()
	c.tls.Close()
	c.tls = nil
	c.pin.Unpin()
	if rc != lib.SQLITE_OK {
		return fmt.Errorf("close database: result code %d", rc)
	}
	return nil
}

// OpenForeignKeys reports whether deferred foreign keys are currently violated, so that a commit would fail.
func (c *Conn) OpenForeignKeys() bool {
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_DEFERRED_FKS, c.out+outFirst, c.out+outSecond, 0)
	return *ref[int32](c.out + outFirst) != 0
}

// Changes returns how many rows the last row-changing statement changed.
func (c *Conn) Changes() int64 { return lib.Xsqlite3_changes64(c.tls, c.db) }

// TotalChanges returns how many rows were changed since the connection was opened, including those changed by triggers
// and cascades. It excludes rows of sqlite_sequence that the engine changes itself, and rows that a REPLACE deletes.
func (c *Conn) TotalChanges() int64 { return lib.Xsqlite3_total_changes64(c.tls, c.db) }

// ForgetLastInsertID makes results report a LastInsertID of 0 until a statement inserts a row.
func (c *Conn) ForgetLastInsertID() { lib.Xsqlite3_set_last_insert_rowid(c.tls, c.db, 0) }

// Exec runs one statement of the system itself, unguarded, and ignores the rows that it returns.
func (c *Conn) Exec(sql string, args ...dbaas.Value) error {
	return c.Query(sql, func(Row) error { return nil }, args...)
}

// apart runs fn with separate memory for bound values, so that statements in fn do not overwrite the values of the
// running statement.
func (c *Conn) apart(fn func() error) error {
	p, size := c.scratch, c.scratchSize
	c.scratch, c.scratchSize = 0, 0
	defer func() {
		libc.Xfree(c.tls, c.scratch)
		c.scratch, c.scratchSize = p, size
	}()
	return fn()
}

// Query runs one statement of the system itself, unguarded, and calls row for each row until row returns an error. row
// must not run a statement with the same text on c.
func (c *Conn) Query(sql string, row func(Row) error, args ...dbaas.Value) error {
	s, err := c.Prepare(sql, nil)
	if err != nil {
		return err
	}
	s.running = true
	defer func() {
		s.running = false
		s.reset()
		c.dropExtra(s)
	}()
	if err := s.bind(args); err != nil {
		return err
	}
	for {
		more, err := s.step()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		if err := c.apart(func() error { return row(Row{s}) }); err != nil {
			return err
		}
	}
}

// WithoutTriggers runs fn with foreign keys, triggers and CHECK constraints off, for rows that have passed them. No
// transaction may be open.
func (c *Conn) WithoutTriggers(fn func() error) error {
	for _, op := range []int32{lib.SQLITE_DBCONFIG_ENABLE_FKEY, lib.SQLITE_DBCONFIG_ENABLE_TRIGGER} {
		if err := c.setFlag(op, false); err != nil {
			return err
		}
	}
	err := c.ExecOnce("PRAGMA ignore_check_constraints=ON")
	if err == nil {
		err = fn()
	}
	err = errors.Join(err, c.ExecOnce("PRAGMA ignore_check_constraints=OFF"))
	for _, f := range []struct {
		op int32
		on bool
	}{{lib.SQLITE_DBCONFIG_ENABLE_FKEY, c.foreignKeys}, {lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, c.triggers}} {
		err = errors.Join(err, c.setFlag(f.op, f.on))
	}
	return err
}

// WithoutForeignKeys runs fn with foreign keys off, also inside a transaction. Calls nest.
func (c *Conn) WithoutForeignKeys(fn func() error) error {
	if !c.foreignKeys {
		return fn()
	}
	if err := c.setFlag(lib.SQLITE_DBCONFIG_ENABLE_FKEY, false); err != nil {
		return err
	}
	c.foreignKeys = false // an inner call must not turn them on again
	err := fn()
	c.foreignKeys = true
	if again := c.setFlag(lib.SQLITE_DBCONFIG_ENABLE_FKEY, true); again != nil {
		return again
	}
	return err
}

// Interrupted reports whether the context of Within has ended.
func (c *Conn) Interrupted() bool { return wait.Closed(c.done) }
