// Package sqlite is the only door to the SQLite engine. persdb and the replicas
// reach their files through it, and it keeps the rules that both sides of the
// replication share: which statements a client may run (Guard), how a commit's
// rows are captured (Session) and applied (Conn.Apply), what a snapshot holds,
// and how rows become JSON.
//
// It binds modernc.org/sqlite/lib, the engine without cgo, directly: the bindings
// that exist lack column types, duplicate column names, read-only flags and
// sessions in one place (docs/adr/0001).
//
// Tables whose name begins with InternalPrefix belong to the system: clients
// cannot name them, sessions do not capture them, snapshots leave them out, but
// for the position.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// InternalPrefix begins the names of the system's own tables.
const InternalPrefix = "rs_"

// Conn is one connection to one database file. It is used by one goroutine at a
// time and not safe for concurrent use.
type Conn struct {
	tls         *libc.TLS
	db          uintptr
	out         uintptr // outSize bytes, where C functions put what they return
	mainName    uintptr // "main" in C memory
	scratch     uintptr // memory of bound values, reused by each statement
	scratchSize int
	pin         runtime.Pinner // keeps the address that callbacks get

	stmts                 map[string]*Stmt  // of this package's users
	guarded               map[string]*Stmt  // of clients
	guard                 Guard             // whose statement is being prepared or run
	seen                  actions           // what the authorizer was asked since the last prepare
	denied                string            // why the authorizer said no
	done                  <-chan struct{}   // closed: interrupt
	pace                  func()            // called in long statements
	deadline              time.Time         // passed: interrupt; zero: none
	stopped               atomic.Bool       // interrupt
	tables                map[string]*table // application tables by name; nil: to be read
	altered               bool              // the open transaction has changed the schema
	capture               *Capture          // nil for connections that record nothing
	protected             []string          // tables and indexes that clients may not alter
	reserved              map[string]bool   // internal names before the first schema change of a client
	looks                 uint              // calls of onProgress
	foreignKeys, triggers bool
	limits                Limits
	longest               int // bytes of a value in what runs now
	meter                 meter
	functions             uintptr // what the engine keeps for ours
	anchor                *Stmt   // keeps the state that a reader's transaction sees
}

const (
	// progressOps is how many steps of the engine pass between two calls of onProgress; a point read takes fewer.
	progressOps = 100
	// clockEvery is how many of these calls pass between two looks at the clock, about 20 to 50 microseconds.
	clockEvery = 10
	// yieldEvery is how many of these calls pass between two at which a statement lets goroutines run that are ready. Go itself takes
	// the core from it after 10 ms only, and a request of others is ready some ten times on its way.
	yieldEvery = 64
	// largeBytes is from where on a statement has values that make one step take milliseconds, so every call looks.
	largeBytes = 1 << 20
)

// onProgress is called by the engine inside long statements; not zero interrupts.
func onProgress(_ *libc.TLS, arg uintptr) int32 {
	c := ref[Conn](arg)
	if c.pace != nil {
		c.pace()
	}
	if c.capture != nil && c.capture.over {
		return 1
	}
	if c.meter.running && c.meter.isDoomed() {
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

// Within runs fn; statements that fn runs on c are interrupted, with
// CodeTimeout, when ctx ends. Within nests: the inner context counts.
func (c *Conn) Within(ctx context.Context, fn func() error) error {
	done := c.done
	c.done = ctx.Done()
	defer func() { c.done = done }()
	return fn()
}

// Until runs fn; statements that fn runs on c are interrupted, with
// CodeTimeout, at the deadline, or at the one that holds already if that is
// earlier. The zero time adds no deadline.
func (c *Conn) Until(deadline time.Time, fn func() error) error {
	if deadline.IsZero() || (!c.deadline.IsZero() && c.deadline.Before(deadline)) {
		return fn()
	}
	before := c.deadline
	c.deadline = deadline
	defer func() { c.deadline = before }()
	return fn()
}

// Close ends the connection. Sessions must be closed before.
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
	rc := lib.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.out)
	libc.Xfree(c.tls, c.mainName)
	libc.Xfree(c.tls, c.scratch)
	libc.Xfree(c.tls, c.functions)
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

// Begin starts a transaction that reads. Reads between Begin and End see one state, also
// those after a statement that was stopped.
func (c *Conn) Begin() error {
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	if err := c.hold(); err != nil {
		return errors.Join(err, c.End())
	}
	return nil
}

// hold fixes the state that the transaction sees, by a statement that stays in its first row.
func (c *Conn) hold() error {
	s, err := c.prepare("SELECT 0 UNION ALL SELECT 1 FROM sqlite_schema", GuardOff)
	if err != nil {
		return err
	}
	if _, err = s.step(); err != nil {
		return err
	}
	c.anchor = s
	return nil
}

// letGo ends what hold began.
func (c *Conn) letGo() {
	if c.anchor != nil {
		c.anchor.reset()
		c.anchor = nil
	}
}

// resume opens a reader's transaction again that the engine has ended, as it does when a statement gets no memory. The anchor has
// kept its state.
func (c *Conn) resume() error {
	if c.anchor == nil || c.InTransaction() {
		return nil
	}
	return c.Exec("BEGIN")
}

// BeginWrite starts a transaction that writes and takes the write lock at once,
// so that no statement in it can fail for want of the lock.
func (c *Conn) BeginWrite() error { return c.Exec("BEGIN IMMEDIATE") }

// Commit ends the transaction. A nil error means that it is durable if the
// connection is. After an error InTransaction says whether it is still open.
func (c *Conn) Commit() error {
	c.letGo()
	err := c.Exec("COMMIT")
	if err == nil {
		c.altered = false
	}
	return err
}

// schemaChanged notes that the open transaction has changed the schema.
func (c *Conn) schemaChanged() { c.tables, c.altered = nil, true }

// undone forgets the schema of a transaction that is undone.
func (c *Conn) undone() {
	if c.altered {
		c.tables = nil
	}
}

// End leaves the transaction without keeping its changes. It does nothing when
// none is open, so it can be deferred.
func (c *Conn) End() error {
	c.letGo()
	if !c.InTransaction() {
		c.undone() // the engine may have rolled back
		c.altered = false
		return nil
	}
	done, deadline := c.done, c.deadline // a rollback must not be interrupted.
	c.done, c.deadline = nil, time.Time{}
	defer func() { c.done, c.deadline = done, deadline }()
	c.undone()
	c.altered = false
	return c.Exec("ROLLBACK")
}

// InTransaction reports whether a transaction is open. It turns false inside one
// when the engine rolled it back by itself, as after a full disk.
func (c *Conn) InTransaction() bool {
	return lib.Xsqlite3_get_autocommit(c.tls, c.db) == 0
}

// Savepoint marks a place inside a transaction to which RollbackTo returns. There
// is one level: a savepoint ends before the next one starts.
func (c *Conn) Savepoint() error { return c.Exec("SAVEPOINT op") }

// Release keeps what happened since Savepoint.
func (c *Conn) Release() error { return c.Exec("RELEASE op") }

// RollbackTo undoes what happened since Savepoint and ends it.
func (c *Conn) RollbackTo() error {
	c.undone()
	if err := c.Exec("ROLLBACK TO op"); err != nil {
		return err
	}
	return c.Release()
}

// OpenForeignKeys reports whether deferred foreign keys are violated now, which
// would make the commit fail.
func (c *Conn) OpenForeignKeys() bool {
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_DEFERRED_FKS, c.out+outFirst, c.out+outSecond, 0)
	return *ref[int32](c.out + outFirst) != 0
}

// Changes returns how many rows the last statement that changes rows changed.
func (c *Conn) Changes() int64 { return lib.Xsqlite3_changes64(c.tls, c.db) }

// TotalChanges returns how many rows were changed since the connection was opened, by triggers and cascades
// too, but not rows of sqlite_sequence that the engine changes itself nor rows that a REPLACE deletes.
func (c *Conn) TotalChanges() int64 { return lib.Xsqlite3_total_changes64(c.tls, c.db) }

// ForgetLastInsertID makes LastInsertID of the following statements 0 until one inserts.
func (c *Conn) ForgetLastInsertID() { lib.Xsqlite3_set_last_insert_rowid(c.tls, c.db, 0) }

// Exec runs one statement of this system's own, unguarded. Rows are dropped.
func (c *Conn) Exec(sql string, args ...dbaas.Value) error {
	return c.Query(sql, func(Row) error { return nil }, args...)
}

// apart runs fn with other memory for bound values, so that statements that fn
// runs leave the values of the one that is running alone.
func (c *Conn) apart(fn func() error) error {
	p, size := c.scratch, c.scratchSize
	c.scratch, c.scratchSize = 0, 0
	defer func() {
		libc.Xfree(c.tls, c.scratch)
		c.scratch, c.scratchSize = p, size
	}()
	return fn()
}

// Query runs one statement of this system's own, unguarded, and calls row for
// each row until it returns an error. It must not run c's statements with the same text meanwhile.
func (c *Conn) Query(sql string, row func(Row) error, args ...dbaas.Value) error {
	s, err := c.prepare(sql, GuardOff)
	if err != nil {
		return err
	}
	defer s.reset()
	if err := s.bind(args, nil); err != nil {
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

// AsReplica runs fn with foreign keys and triggers off, as Apply wants it. No
// transaction may be open.
func (c *Conn) AsReplica(fn func() error) error {
	for _, op := range []int32{lib.SQLITE_DBCONFIG_ENABLE_FKEY, lib.SQLITE_DBCONFIG_ENABLE_TRIGGER} {
		if err := c.setFlag(op, false); err != nil {
			return err
		}
	}
	err := fn()
	for _, f := range []struct {
		op int32
		on bool
	}{{lib.SQLITE_DBCONFIG_ENABLE_FKEY, c.foreignKeys}, {lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, c.triggers}} {
		err = errors.Join(err, c.setFlag(f.op, f.on))
	}
	return err
}

// Interrupted reports whether the context of Within has ended.
func (c *Conn) Interrupted() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
