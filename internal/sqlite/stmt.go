package sqlite

import (
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

const (
	// maxStatements is how many prepared statements a connection keeps for clients, and how many of its own.
	maxStatements = 512
	// maxKeptSQL is the longest text of a client that is kept: longer ones contain literals and are not repeated.
	maxKeptSQL = 8 << 10
)

// Stmt is one prepared statement of a connection. It is valid until the
// connection prepares the next client statement.
type Stmt struct {
	c        *Conn
	p        uintptr
	sql      string
	guard    Guard
	seen     actions
	readOnly bool
	names    []string // of parameters, with their prefix; "" for nameless ones
	results  []string // the names of the columns
	declared []string // the columns' declared types in lower case, "" for expressions
	columns  sqljson.Columns
	returned int   // rows that a read has rendered
	prepared int32 // how often the engine has prepared it again
	kept     bool
}

// Prepare returns the client's statement sql, checked by guard, or the system's own if guard is nil. Errors are
// *dbaas.Error: guard's for what it refuses, CodeInvalid for bad SQL and for text that is not exactly one statement.
// Nothing runs yet.
func (c *Conn) Prepare(sql string, guard Guard) (*Stmt, error) {
	kept := c.guarded
	if guard == nil {
		kept = c.stmts
	} else {
		c.meter.begin()
	}
	if s := kept[sql]; s != nil && s.guard == guard && s.kept {
		if guard != nil {
			c.meter.watched.begin(&s.sql, c.deadline)
		}
		return s, nil
	}
	if guard != nil {
		c.evict()
	}
	s, err := c.compile(sql, guard)
	if err != nil {
		c.meter.end()
		return nil, err
	}
	if old := kept[sql]; old != nil {
		old.finalize()
	}
	kept[sql] = s
	// The effect of a schema statement depends on what exists: IF EXISTS compiles to nothing while the object is
	// missing, and then the authorizer is not called. Only statements on rows mean the same each time.
	s.kept = guard == nil || s.seen.rows && !s.seen.schema && len(sql) <= maxKeptSQL
	return s, nil
}

// evict makes room for one more client statement. Statements not worth keeping go first, then any one, since which are
// hot is not known.
func (c *Conn) evict() {
	for sql, s := range c.guarded {
		if !s.kept {
			s.finalize()
			delete(c.guarded, sql)
		}
	}
	for sql, s := range c.guarded {
		if len(c.guarded) < maxStatements {
			return
		}
		s.finalize()
		delete(c.guarded, sql)
	}
}

func (c *Conn) compile(sql string, guard Guard) (*Stmt, error) {
	if strings.IndexByte(sql, 0) >= 0 {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "the statement contains a zero byte")
	}
	if guard != nil {
		if len(sql) > c.limits.Length {
			return nil, errLongText
		}
		watching := sql
		c.meter.watched.begin(&watching, c.deadline)
		c.meter.enter(true)
		defer c.meter.leave()
	}
	c.boundValues(guard)
	text, err := cstring(c.tls, sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	c.guard, c.seen, c.denied = guard, actions{}, nil
	defer func() { c.guard = nil }() // the engine prepares statements of its own, as for sessions.
	p, tail, err := c.prepareAt(text)
	if err != nil {
		return nil, err
	}
	if p == 0 {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "there is no statement in the text")
	}
	s := &Stmt{c: c, p: p, sql: sql, guard: guard, seen: c.seen}
	s.readOnly = lib.Xsqlite3_stmt_readonly(c.tls, p) != 0
	if lib.Xsqlite3_stmt_isexplain(c.tls, p) != 0 {
		s.readOnly, s.seen = true, actions{query: true}
	}
	err = c.nothingAfter(tail)
	if err == nil {
		err = s.allowed()
	}
	if err != nil {
		s.finalize()
		return nil, err
	}
	s.describe()
	return s, nil
}

func (c *Conn) prepareAt(text uintptr) (p, tail uintptr, err error) {
	rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.out+outFirst, c.out+outSecond)
	if rc != lib.SQLITE_OK {
		return 0, 0, c.failure(rc)
	}
	return *ref[uintptr](c.out + outFirst), *ref[uintptr](c.out + outSecond), nil
}

// nothingAfter checks that only blanks, comments and semicolons follow a statement.
func (c *Conn) nothingAfter(tail uintptr) error {
	for *ref[byte](tail) != 0 {
		p, next, err := c.prepareAt(tail)
		lib.Xsqlite3_finalize(c.tls, p)
		if err != nil || p != 0 {
			return dbaas.Errorf(dbaas.CodeInvalid, "more than one statement in one text")
		}
		if next == tail {
			return nil
		}
		tail = next
	}
	return nil
}

// describe reads the names of parameters and columns.
func (s *Stmt) describe() {
	tls := s.c.tls
	s.names = make([]string, lib.Xsqlite3_bind_parameter_count(tls, s.p))
	for i := range s.names {
		if p := lib.Xsqlite3_bind_parameter_name(tls, s.p, int32(i+1)); p != 0 {
			s.names[i] = libc.GoString(p)
		}
	}
	s.describeColumns()
}

func (s *Stmt) describeColumns() {
	tls := s.c.tls
	n := int(lib.Xsqlite3_column_count(tls, s.p))
	s.results, s.declared = make([]string, n), make([]string, n)
	for i := range n {
		s.results[i] = libc.GoString(lib.Xsqlite3_column_name(tls, s.p, int32(i)))
		if p := lib.Xsqlite3_column_decltype(tls, s.p, int32(i)); p != 0 {
			s.declared[i] = strings.ToLower(libc.GoString(p))
		}
	}
	s.columns = sqljson.NewColumns(s.results)
}

// Schema reports whether the statement changes the schema.
func (s *Stmt) Schema() bool { return s.seen.schema }

// OnlyReads reports whether the statement is a query, which never changes anything. A schema statement that currently
// has nothing to do, such as DROP IF EXISTS without the object, is ReadOnly but not OnlyReads.
func (s *Stmt) OnlyReads() bool { return s.readOnly && s.seen.query }

// ReadOnly reports whether the statement leaves the database as it is.
func (s *Stmt) ReadOnly() bool { return s.readOnly }

// Rewritten returns the tables that the statement drops or alters. Their rows change through the statement's text, so
// they must not be captured while it runs.
func (s *Stmt) Rewritten() []string { return s.seen.rewritten }

// Dropped returns the tables that the statement drops.
func (s *Stmt) Dropped() []string {
	if s.seen.alter {
		return nil
	}
	return s.seen.rewritten
}

// WritesSequence reports whether the statement names sqlite_sequence to change it.
func (s *Stmt) WritesSequence() bool { return s.seen.sequence }

// step runs the statement to its next row. After an error the statement has been reset.
func (s *Stmt) step() (bool, error) {
	c := s.c
	c.guard = s.guard // the engine may have to prepare it again, and then calls the authorizer.
	c.seen = s.seen   // it also prepares statements of its own that belong to this one.
	c.boundValues(s.guard)
	if s.guard != nil {
		c.meter.enter(false)
	}
	if s.seen.schema {
		c.schemaChanged()
	}
	rc := lib.Xsqlite3_step(c.tls, s.p)
	c.guard = nil
	if rc != lib.SQLITE_ROW { // else values are fetched, which takes memory too.
		c.meter.leave()
	}
	switch rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		err := c.failure(rc)
		s.reset()
		if e := c.resume(); e != nil {
			return false, e
		}
		return false, err
	}
}

// refresh rereads the columns if the engine prepared the statement again because the schema had changed. Call it after
// the first step.
func (s *Stmt) refresh() {
	if n := lib.Xsqlite3_stmt_status(s.c.tls, s.p, lib.SQLITE_STMTSTATUS_REPREPARE, 0); n != s.prepared {
		s.prepared = n
		s.describeColumns()
	}
}

func (s *Stmt) reset() {
	lib.Xsqlite3_reset(s.c.tls, s.p)
	if s.guard != nil {
		s.c.meter.leave()
		s.c.meter.end()
	}
	if s.c.scratchSize > maxKeptScratch { // no statement's values are in use now: those of others are apart.
		lib.Xsqlite3_clear_bindings(s.c.tls, s.p)
		s.c.release()
	}
}

func (s *Stmt) finalize() {
	lib.Xsqlite3_finalize(s.c.tls, s.p)
	s.p = 0
}
