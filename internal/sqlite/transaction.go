package sqlite

import (
	"errors"
	"time"

	lib "modernc.org/sqlite/lib"
)

// Begin starts a read transaction. Reads between Begin and End see one state, even after a statement that was stopped.
func (c *Conn) Begin() error {
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	if err := c.hold(); err != nil {
		return errors.Join(err, c.End())
	}
	return nil
}

// hold pins the state that the transaction sees, with a statement that stays in its first row.
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

// letGo releases what hold pinned.
func (c *Conn) letGo() {
	if c.anchor != nil {
		c.anchor.reset()
		c.anchor = nil
	}
}

// resume reopens a read transaction that the engine has ended, as it does when a statement runs out of memory. The
// anchor has kept its state.
func (c *Conn) resume() error {
	if c.anchor == nil || c.InTransaction() {
		return nil
	}
	return c.Exec("BEGIN")
}

// BeginWrite starts a write transaction and takes the write lock immediately, so that no statement in it can fail
// because of the lock.
func (c *Conn) BeginWrite() error { return c.Exec("BEGIN IMMEDIATE") }

// Commit ends the transaction. A nil error means that it is durable if the connection is. After an error, InTransaction
// reports whether it is still open.
func (c *Conn) Commit() error {
	c.letGo()
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

// undone records that a transaction was rolled back.
func (c *Conn) undone() {
	if c.altered {
		c.edition++
	}
}

// SchemaEdition returns a number that changes whenever a client's statement or ChangeSchema changes the schema on c, and
// whenever such a change is undone. What was read from the schema is valid while the number stays the same, unless
// another connection changes the schema.
func (c *Conn) SchemaEdition() uint64 { return c.edition }

// ChangeSchema runs a schema change of the system itself, unguarded, and finalizes all of the system's prepared
// statements, since the tables that they use may be gone.
func (c *Conn) ChangeSchema(sql string) error {
	c.schemaChanged()
	for text, s := range c.stmts {
		s.finalize()
		delete(c.stmts, text)
	}
	return c.ExecOnce(sql)
}

// End ends the transaction and discards its changes. It does nothing if none is open, so it can be deferred.
func (c *Conn) End() error {
	c.letGo()
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

// InTransaction reports whether a transaction is open. It becomes false within a transaction if the engine rolls back by
// itself, as after a full disk.
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
