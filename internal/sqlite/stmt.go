package sqlite

import (
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
	"rideshare/internal/sqltext"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Stmt is one prepared statement of a connection. It is valid until the connection prepares the next client statement.
// A client statement that is large can run only once.
type Stmt struct {
	c        *Conn
	p        uintptr
	sql      string // the text that it was prepared from, and the key under which it is kept
	own      string // the statement's own part of sql
	rest     string // the text after own in sql; "" if only blanks and comments follow
	guard    Guard
	seen     actions
	readOnly bool
	names    []string // the names of the parameters, with their prefix; "" for nameless ones
	results  []string // the names of the columns
	declared []string // the columns' declared types in lower case, "" for expressions
	columns  sqljson.Columns
	facts    *Facts // nil: not made yet
	returned int    // number of rows that a read has rendered
	prepared int32  // how often the engine has reprepared it
	bytes    int32  // the memory of the prepared statement
	extra    bool   // of the system's own, and more than a connection keeps
	running  bool   // in Query
}

// Prepare returns the first statement in the client's text sql, checked by guard. Rest returns the text after it. If
// guard is nil, sql is a statement of the system's own. Errors are *dbaas.Error: guard's own error if it refuses the
// statement, ErrNoStatement if there are only blanks and comments, CodeInvalid for bad SQL. Prepare runs nothing.
func (c *Conn) Prepare(sql string, guard Guard) (*Stmt, error) {
	if guard == nil {
		if s := c.stmts[sql]; s != nil {
			return s, nil
		}
		s, err := c.compile(sql, nil)
		if err == nil {
			c.keepOwn(s)
		}
		return s, err
	}
	c.meter.begin()
	c.dropLast()
	short := len(sql) <= maxKeptSQL
	if short {
		if s := c.guarded[sql]; s != nil && s.guard == guard {
			return s, nil
		}
	}
	s, err := c.compile(sql, guard)
	if err != nil {
		c.meter.end()
		return nil, err
	}
	// Only statements on rows are kept, since they mean the same each time. The effect of a schema statement depends on
	// what exists: IF EXISTS compiles to nothing while the object is missing, without a call of the authorizer.
	if short && !s.large() && s.seen.rows && !s.seen.schema {
		c.keep(s)
	} else {
		c.last = s
	}
	return s, nil
}

func (c *Conn) compile(sql string, guard Guard) (*Stmt, error) {
	longest := len(sql)
	if guard != nil {
		longest = min(longest, c.limits.Length)
		watching := sql
		c.meter.watched.begin(&watching, c.deadline)
		defer c.meter.watched.end() // the statement may never run
		c.meter.enter(true)
		defer c.meter.leave()
	}
	c.boundValues(guard)
	c.guard = guard
	defer func() { c.guard = nil }() // the engine prepares statements of its own, for instance for sessions.
	p, from, to, err := c.prepareFirst(sql, longest)
	if err != nil {
		return nil, err
	}
	s := &Stmt{c: c, p: p, sql: sql, own: sql[from:to], rest: sql[to:], guard: guard, seen: c.seen}
	if isBlank.MatchString(s.rest) {
		s.rest = ""
	}
	// The engine counts PRAGMA journal_mode as a write, but the pragmas that the guard allows change nothing.
	s.readOnly = lib.Xsqlite3_stmt_readonly(c.tls, p) != 0 || s.seen.explain || guard != nil && s.seen.onlyPragma()
	if err = s.allowed(); err == nil && guard == nil && s.rest != "" {
		err = dbaas.Errorf(dbaas.CodeInvalid, "more than one statement in one text")
	}
	if err != nil {
		s.finalize()
		return nil, err
	}
	if s.seen.explain {
		s.seen = actions{query: true, explain: true}
	}
	s.describe()
	s.weigh()
	return s, nil
}

// ErrNoStatement is the error for a text that has only blanks, comments and semicolons.
var ErrNoStatement = &dbaas.Error{Code: dbaas.CodeInvalid, Message: "there is no statement in the text"}

// windowBytes is how much of a text is copied at first for the engine to find the first statement in it. Copying the
// whole rest for each statement of a long text would take time proportional to the square of its length.
const windowBytes = 64 << 10

// prepareFirst prepares the first statement in a text, and returns where it begins and ends. The statement may be up to longest
// bytes long; the text may have any length. prepareFirst tries ever larger windows until the statement ends in one.
func (c *Conn) prepareFirst(sql string, longest int) (p uintptr, from, to int, err error) {
	for n := windowBytes; ; n *= 8 {
		window := sql[:min(n, longest)]
		p, from, to, err = c.prepareWindow(window)
		switch {
		case len(window) == len(sql), err == nil && to < len(window), len(window) == longest && ended(window):
			return p, from, to, err
		}
		lib.Xsqlite3_finalize(c.tls, p)
		if len(window) == longest {
			return 0, 0, 0, errLongText
		}
	}
}

// ended reports whether a statement ends in the text.
func ended(sql string) bool {
	var s sqltext.Splitter
	for range s.Feed(sql, 1) {
		return true
	}
	return false
}

func (c *Conn) prepareWindow(sql string) (p uintptr, from, to int, err error) {
	if strings.IndexByte(sql, 0) >= 0 {
		return 0, 0, 0, dbaas.Errorf(dbaas.CodeInvalid, "the statement contains a zero byte")
	}
	text, err := cstring(c.tls, sql)
	if err != nil {
		return 0, 0, 0, err
	}
	defer libc.Xfree(c.tls, text)
	c.seen, c.denied = actions{}, nil
	at := text
	for {
		p, tail, err := c.prepareAt(at)
		switch {
		case err != nil:
			return 0, 0, 0, err
		case p != 0 && c.guard != nil && !c.seen.explain && lib.Xsqlite3_stmt_isexplain(c.tls, p) != 0:
			lib.Xsqlite3_finalize(c.tls, p)
			c.seen = actions{explain: true} // the guard is asked again about the same text, now that this is known
			continue
		case p != 0:
			return p, int(at - text), int(tail - text), nil
		case *ref[byte](tail) == 0 || tail == at:
			return 0, 0, 0, ErrNoStatement
		}
		at = tail
	}
}

func (c *Conn) prepareAt(text uintptr) (p, tail uintptr, err error) {
	rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.out+outFirst, c.out+outSecond)
	if rc != lib.SQLITE_OK {
		return 0, 0, c.failure(rc)
	}
	return *ref[uintptr](c.out + outFirst), *ref[uintptr](c.out + outSecond), nil
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

// Text returns the statement's own text.
func (s *Stmt) Text() string { return s.own }

// Rest returns the text after the statement in the text that it was prepared from; "" if there is no other statement.
func (s *Stmt) Rest() string { return s.rest }

// named returns the names of the columns. If qualify is set, the names of their tables come first, except for
// expressions.
func (s *Stmt) named(qualify bool) []string {
	if !qualify {
		return s.results
	}
	names := slices.Clone(s.results)
	for i := range names {
		if table := lib.Xsqlite3_column_table_name(s.c.tls, s.p, int32(i)); table != 0 {
			names[i] = libc.GoString(table) + "." + names[i]
		}
	}
	return names
}

// Parameters returns how many parameters the statement has.
func (s *Stmt) Parameters() int { return len(s.names) }

// Schema reports whether the statement changes the schema.
func (s *Stmt) Schema() bool { return s.seen.schema }

// OnlyReads reports whether the statement is a query, which never changes anything. A schema statement that currently
// has nothing to do, such as DROP IF EXISTS without the object, is ReadOnly but not OnlyReads.
func (s *Stmt) OnlyReads() bool { return s.readOnly && s.seen.query }

// ReadOnly reports whether the statement leaves the database as it is.
func (s *Stmt) ReadOnly() bool { return s.readOnly }

// Rewritten returns the tables that the statement drops or alters. Their rows must not be captured while it runs,
// because replicas get these changes by running the statement's text.
func (s *Stmt) Rewritten() []string { return s.seen.rewritten }

// Dropped returns the tables that the statement drops.
func (s *Stmt) Dropped() []string {
	if s.seen.alter {
		return nil
	}
	return s.seen.rewritten
}

// WritesSequence reports whether the statement itself or a trigger changes sqlite_sequence. Ask after the statement has
// run: it may have been prepared before the trigger was made.
func (s *Stmt) WritesSequence() bool { return s.seen.sequence }

// step runs the statement to its next row. After an error the statement has been reset.
func (s *Stmt) step() (bool, error) {
	c := s.c
	c.guard = s.guard       // the engine may have to reprepare the statement, and then calls the authorizer.
	c.seen = s.seen         // the engine also prepares statements of its own as part of this one.
	c.seen.sequence = false // the authorizer sets it again if the engine reprepares the statement.
	c.denied = nil
	c.boundValues(s.guard)
	if s.guard != nil {
		if !c.meter.running { // the first step
			c.meter.watched.begin(&s.sql, c.deadline)
		}
		c.meter.enter(false)
	}
	if s.seen.schema {
		c.schemaChanged()
	}
	rc := lib.Xsqlite3_step(c.tls, s.p)
	for rc == lib.SQLITE_ROW && s.hidden() {
		rc = lib.Xsqlite3_step(c.tls, s.p)
	}
	c.guard = nil
	if rc != lib.SQLITE_ROW { // otherwise values are fetched next, which takes memory too.
		c.meter.leave()
	}
	switch rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		err := c.failure(rc)
		s.refresh() // the engine may have reprepared the statement before it failed, and will not do so again.
		s.reset()
		if e := c.resume(); e != nil {
			return false, e
		}
		return false, err
	}
}

// hidden reports whether the current row shows a table that the guard hides.
func (s *Stmt) hidden() bool {
	const nameColumn = 1
	return s.seen.names && s.guard.Authorize(Action{Op: OpPragma, Name: tableList, On: s.value(nameColumn).Text, Argument: true}) == ErrHidden
}

// refresh rereads the columns if the engine reprepared the statement because the schema had changed. Call it after the
// first step. A step that fails calls it itself.
func (s *Stmt) refresh() {
	if n := lib.Xsqlite3_stmt_status(s.c.tls, s.p, lib.SQLITE_STMTSTATUS_REPREPARE, 0); n != s.prepared {
		s.prepared = n
		s.describeColumns()
		// The authorizer was asked again. Its earlier answers are kept too, so seen may have more than the statement reads
		// now. Only sequence is exact, since the rows of a statement that changes sqlite_sequence are not counted.
		s.seen.tables, s.seen.calls, s.seen.rowid = s.c.seen.tables, s.c.seen.calls, s.seen.rowid || s.c.seen.rowid
		s.seen.sequence = s.c.seen.sequence
		s.facts = nil
		s.grown()
	}
}

// reset ends the statement's run. It may be called again. A large client statement is finalized.
func (s *Stmt) reset() {
	if s.p == 0 {
		return
	}
	lib.Xsqlite3_reset(s.c.tls, s.p)
	if s.guard != nil {
		s.c.meter.leave()
		s.c.meter.end()
	}
	if s.c.scratchSize > maxKeptScratch { // no values in it are in use: other statements have theirs apart.
		lib.Xsqlite3_clear_bindings(s.c.tls, s.p)
		s.c.release()
	}
	if s.large() && s.guard != nil {
		s.finalize()
	}
}

func (s *Stmt) finalize() {
	lib.Xsqlite3_finalize(s.c.tls, s.p)
	s.p = 0
}
