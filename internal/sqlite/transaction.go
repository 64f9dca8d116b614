package sqlite

import (
	"errors"
	"time"

	lib "modernc.org/sqlite/lib"
)

// Begin starts a read transaction. All reads between Begin and End see the same state, even after a stopped statement.
func (c *Conn) Begin() error {
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	if err := c.hold(); err != nil {
		return errors.Join(err, c.End())
	}
	return nil
}

// hold pins the state that the transaction sees, with a statement that stays open at its first row.
func (c *Conn) hold() error {
	s, err := c.Prepare("SELECT 0 UNION ALL SELECT 1 FROM sqlite_schema", nil)
	if err != nil {
		return err
	}
	if _, err = s.step(); err != nil {
		return err
	}
	c.anchor = s
	return nil
}

// unpin releases what hold pinned.
func (c *Conn) unpin() {
	if c.anchor != nil {
		c.anchor.reset()
		c.anchor = nil
	}
}

// resume reopens a read transaction after the engine has ended it, as it does when a statement runs out of memory. The
// anchor has pinned the transaction's state.
func (c *Conn) resume() error {
	if c.anchor == nil || c.InTransaction() {
		return nil
	}
	return c.Exec("BEGIN")
}

// BeginWrite starts a write transaction and takes the write lock immediately, so that no later statement can fail
// because of the lock.
func (c *Conn) BeginWrite() error { return c.Exec("BEGIN IMMEDIATE") }

// Commit ends the transaction. A nil error means that it is durable if the connection is. After an error, InTransaction
// reports whether it is still open.
func (c *Conn) Commit() error {
	c.unpin()
	c.frames.begin()
	defer c.frames.end() // also if the engine panics
	err := c.Exec("COMMIT")
	if err == nil {
		c.altered = false
	}
	return err
}

// schemaChanged records that the open transaction changes the schema.
func (c *Conn) schemaChanged() {
	c.altered = true
	c.edition++
}

// undone records that changes of the open transaction were rolled back.
func (c *Conn) undone() {
	if c.altered {
		c.edition++
	}
}

// SchemaEdition returns a number that changes whenever a client's statement or ChangeSchema changes the schema on c,
// and whenever such a change is undone. Data read from the schema stays valid while the number stays the same, unless
// another connection changes the schema.
func (c *Conn) SchemaEdition() uint64 { return c.edition }

// ChangeSchema runs a schema change of the system itself, unguarded, and finalizes all of the system's prepared
// statements, since the tables that they use may be gone.
func (c *Conn) ChangeSchema(sql string) error {
	c.schemaChanged()
	for text := range c.stmts {
		c.forget(text)
	}
	return c.ExecOnce(sql)
}

// End rolls the transaction back. It does nothing if no transaction is open, so it can be deferred.
func (c *Conn) End() error {
	c.unpin()
	if !c.InTransaction() {
		c.undone() // the engine may have rolled back
		c.altered = false
		return nil
	}
	done, deadline := c.done, c.deadline // the rollback must not be interrupted.
	c.done, c.deadline = nil, time.Time{}
	defer func() { c.done, c.deadline = done, deadline }()
	c.undone()
	c.altered = false
	return c.Exec("ROLLBACK")
}

// InTransaction reports whether a transaction is open. It becomes false if the engine rolls the transaction back by
// itself, for instance when the disk is full.
func (c *Conn) InTransaction() bool {
	return lib.Xsqlite3_get_autocommit(c.tls, c.db) == 0
}

// Savepoint marks a point in a transaction for RollbackTo. Savepoints do not nest: end one before the next.
func (c *Conn) Savepoint() error { return c.Exec("SAVEPOINT op") }

// Release keeps the changes since Savepoint.
func (c *Conn) Release() error { return c.Exec("RELEASE op") }

// RollbackTo undoes the changes since Savepoint and ends the savepoint.
func (c *Conn) RollbackTo() error {
	c.undone()
	if err := c.Exec("ROLLBACK TO op"); err != nil {
		return err
	}
	return c.Release()
}
