package sqlite

import lib "modernc.org/sqlite/lib"

// No limit of memory counts a prepared statement between two uses of it, so what is kept has limits of its own.
const (
	// maxStatements is how many prepared statements a connection keeps for clients, and as many of the system's own.
	maxStatements = 512
	// maxKeptSQL is the longest client text that is kept, in bytes: longer ones contain literals and are not repeated.
	maxKeptSQL = 8 << 10
	// maxKeptBytes is the most memory of one statement that is kept. Most statements take less than 8 KiB, and a
	// SELECT * of 200 columns takes 100 KiB.
	maxKeptBytes = 256 << 10
	// maxKeptAll is the most memory of all client statements that a connection keeps, and of the system's own.
	maxKeptAll = 8 << 20
)

// large reports whether the statement takes too much memory to be kept.
func (s *Stmt) large() bool { return s.bytes > maxKeptBytes }

// weigh finds out how much memory the prepared statement takes. The engine walks through the whole program for that.
func (s *Stmt) weigh() {
	s.bytes = lib.Xsqlite3_stmt_status(s.c.tls, s.p, lib.SQLITE_STMTSTATUS_MEMUSED, 0)
}

// dropLast finalizes the last client statement that was not kept.
func (c *Conn) dropLast() {
	if c.last != nil {
		c.last.finalize()
		c.last = nil
	}
}

// keep keeps a client statement prepared. To make room it finalizes arbitrary others: how often they are used is not
// known.
func (c *Conn) keep(s *Stmt) {
	if old := c.guarded[s.sql]; old != nil { // prepared for another guard
		c.letGo(old)
		old.finalize()
	}
	c.guarded[s.sql] = s
	c.kept += int64(s.bytes)
	for _, other := range c.guarded {
		if len(c.guarded) <= maxStatements && c.kept <= maxKeptAll {
			return
		}
		if other != s {
			c.letGo(other)
			other.finalize()
		}
	}
}

// keepOwn keeps a statement of the system's own prepared. The statement is extra if it is large, or if the others leave no room for
// it: clients can cause many texts, for instance one for each set of changed columns, and a large text for a table with many columns.
func (c *Conn) keepOwn(s *Stmt) {
	c.own += int64(s.bytes)
	s.extra = s.large() || len(c.stmts) >= maxStatements || c.own > maxKeptAll
	c.stmts[s.sql] = s
}

// dropExtra finalizes, after a run of the extra statement s, the previous extra statement, or s itself while the previous one still
// runs. One stays: a replica may run it for each of many rows.
func (c *Conn) dropExtra(s *Stmt) {
	if !s.extra || s.sql == c.extra {
		return
	}
	drop := c.extra
	if old := c.stmts[drop]; old != nil && old.running {
		drop = s.sql
	} else {
		c.extra = s.sql
	}
	c.forget(drop)
}

// letGo keeps a client statement no longer. The caller finalizes it.
func (c *Conn) letGo(s *Stmt) {
	delete(c.guarded, s.sql)
	c.kept -= int64(s.bytes)
}

// grown weighs the running statement again, which the engine has reprepared. A statement of the system's own keeps its
// first weight, which forget subtracts from the sum.
func (s *Stmt) grown() {
	if s.guard == nil {
		return
	}
	c := s.c
	kept := c.guarded[s.sql] == s
	if kept {
		c.letGo(s)
	}
	s.weigh()
	switch {
	case kept && s.large():
		c.last = s
	case kept:
		c.keep(s)
	}
}
