package sqlite

import (
	"slices"
	"strings"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Bounds of the prepared statements that a connection keeps for clients.
const (
	maxStatements = 512
	// maxKeptSQL is the longest text that is kept: longer ones carry literals and
	// do not come twice.
	maxKeptSQL = 8 << 10
)

// Stmt is one prepared statement of a connection. It is valid until the
// connection prepares the next client statement.
type Stmt struct {
	c        *Conn
	p        uintptr
	guard    Guard
	seen     actions
	readOnly bool
	names    []string // of parameters, with their prefix; "" for nameless ones
	columns  []column
	prepared int32 // how often the engine has prepared it anew
	kept     bool
}

// column is one column of a result, ready to be rendered.
type column struct {
	name string
	decl string // declared type in lower case, "" for expressions
	key  []byte // `"name":`
	dup  bool   // a later column has the same name
}

// Prepare returns the client statement sql, checked by guard. It returns a
// *dbaas.Error: CodeInvalid for bad SQL, for what guard refuses, and for text
// that is no or more than one statement. Nothing runs yet.
func (c *Conn) Prepare(sql string, guard Guard) (*Stmt, error) { return c.prepare(sql, guard) }

func (c *Conn) prepare(sql string, guard Guard) (*Stmt, error) {
	kept := c.guarded
	if guard == GuardOff {
		kept = c.stmts
	}
	if s := kept[sql]; s != nil && s.guard == guard {
		return s, nil
	}
	if guard != GuardOff {
		c.evict()
	}
	s, err := c.compile(sql, guard)
	if err != nil {
		return nil, err
	}
	if old := kept[sql]; old != nil {
		old.finalize()
	}
	kept[sql] = s
	s.kept = guard == GuardOff || len(sql) <= maxKeptSQL
	return s, nil
}

// evict makes room for one more client statement: what is not worth keeping goes
// first, then any one, since which are hot is not known.
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
	text, err := cstring(c.tls, sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	c.guard, c.seen, c.denied = guard, actions{}, ""
	defer func() { c.guard = GuardOff }() // the engine prepares statements of its own, as for sessions.
	p, tail, err := c.prepareAt(text)
	if err != nil {
		return nil, err
	}
	if p == 0 {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "there is no statement in the text")
	}
	s := &Stmt{c: c, p: p, guard: guard, seen: c.seen}
	s.readOnly = lib.Xsqlite3_stmt_readonly(c.tls, p) != 0
	if lib.Xsqlite3_stmt_isexplain(c.tls, p) != 0 {
		s.readOnly, s.seen = true, actions{}
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
	if guard == GuardWrite && s.seen.schema && c.reserved == nil {
		if c.reserved, err = c.internalNames(); err != nil {
			s.finalize()
			return nil, err
		}
	}
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
	s.columns = make([]column, lib.Xsqlite3_column_count(tls, s.p))
	for i := range s.columns {
		name := libc.GoString(lib.Xsqlite3_column_name(tls, s.p, int32(i)))
		decl := ""
		if p := lib.Xsqlite3_column_decltype(tls, s.p, int32(i)); p != 0 {
			decl = strings.ToLower(libc.GoString(p))
		}
		s.columns[i] = column{name: name, decl: decl, key: append(AppendText(nil, name), ':')}
	}
	for i := range s.columns {
		s.columns[i].dup = slices.ContainsFunc(s.columns[i+1:], func(o column) bool { return o.name == s.columns[i].name })
	}
}

// Schema reports whether the statement changes the schema.
func (s *Stmt) Schema() bool { return s.seen.schema }

// ReadOnly reports whether the statement leaves the database as it is.
func (s *Stmt) ReadOnly() bool { return s.readOnly }

// Rewritten returns the tables that the statement drops or alters. Their rows
// change by the statement's text, so a session must not capture them meanwhile.
func (s *Stmt) Rewritten() []string { return s.seen.rewritten }

// step runs the statement up to its next row. After an error it has been reset.
func (s *Stmt) step() (bool, error) {
	c := s.c
	c.guard = s.guard // the engine may have to prepare it anew, and asks again.
	c.seen = s.seen   // it also prepares statements of its own that belong to this one.
	rc := lib.Xsqlite3_step(c.tls, s.p)
	c.guard = GuardOff
	switch rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		err := c.failure(rc)
		s.reset()
		return false, err
	}
}

// refresh reads the columns again if the engine prepared the statement anew
// because the schema had changed. It is called after the first step.
func (s *Stmt) refresh() {
	if n := lib.Xsqlite3_stmt_status(s.c.tls, s.p, lib.SQLITE_STMTSTATUS_REPREPARE, 0); n != s.prepared {
		s.prepared = n
		s.describeColumns()
	}
}

func (s *Stmt) reset() { lib.Xsqlite3_reset(s.c.tls, s.p) }

func (s *Stmt) finalize() {
	lib.Xsqlite3_finalize(s.c.tls, s.p)
	s.p = 0
}
