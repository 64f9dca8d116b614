package sqlite

import (
	"regexp"
	"slices"
	"strings"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Guard decides what clients' statements may do. A statement that is prepared without a Guard is the system's own: it
// may do everything and has no limits. Guards must be comparable, because prepared statements are kept by Guard.
type Guard interface {
	// Authorize decides on one action of a statement. It is called for each action when the statement is prepared, and
	// again if the schema has changed since then. nil allows the action, and ErrHidden makes it have no effect. Any other
	// error refuses the statement; Prepare returns that error. Authorize must not use the connection.
	Authorize(a Action) *dbaas.Error
}

// ErrHidden is returned by a Guard to make the object of an action appear not to exist.
var ErrHidden = &dbaas.Error{Code: dbaas.CodeNotFound, Message: "hidden"}

// Action is one action of a statement.
type Action struct {
	Op   Op
	Name string // the object of the action
	// On is the table that Name belongs to, the column of Name that is read, or the argument of a pragma.
	On string
	// Argument reports whether a pragma has an argument, which may be empty.
	Argument bool
	// Explained reports whether the statement is an EXPLAIN, so that the action does not run.
	Explained bool
}

// Op is a kind of Action. A Guard is not asked about a query itself, only about the tables that it reads.
type Op uint8

// The kinds of actions, with the meaning of Action's fields.
const (
	OpOther        Op = iota
	OpCall            // a function, Name
	OpRead            // a table, Name, is read
	OpPragma          // Name, with the argument On
	OpChange          // rows of a table, Name, are inserted, updated or deleted
	OpDrop            // a table or index, Name, is dropped
	OpAlter           // a table, On, is altered or gets a trigger, Name
	OpSchema          // any other change of the schema: Name, and the table On if there is one
	OpTransaction     // BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE
	OpAttach          // ATTACH and DETACH
	OpVirtualTable    // a virtual table is created or dropped
	OpAnalyze         // ANALYZE
	OpTemporary       // a temporary object is created or dropped
	OpVacuum          // VACUUM
	OpWrite           // the statement may change the database; the Guard is asked about this last
	OpCreateFrom      // CREATE TABLE AS SELECT
)

// ops are the engine's actions whose arguments do not matter.
var ops = map[int32]Op{
	lib.SQLITE_TRANSACTION: OpTransaction, lib.SQLITE_SAVEPOINT: OpTransaction, lib.SQLITE_ATTACH: OpAttach, lib.SQLITE_DETACH: OpAttach,
	lib.SQLITE_CREATE_VTABLE: OpVirtualTable, lib.SQLITE_DROP_VTABLE: OpVirtualTable, lib.SQLITE_ANALYZE: OpAnalyze,
	lib.SQLITE_CREATE_TEMP_INDEX: OpTemporary, lib.SQLITE_CREATE_TEMP_TABLE: OpTemporary, lib.SQLITE_CREATE_TEMP_TRIGGER: OpTemporary,
	lib.SQLITE_CREATE_TEMP_VIEW: OpTemporary, lib.SQLITE_DROP_TEMP_INDEX: OpTemporary, lib.SQLITE_DROP_TEMP_TABLE: OpTemporary,
	lib.SQLITE_DROP_TEMP_TRIGGER: OpTemporary, lib.SQLITE_DROP_TEMP_VIEW: OpTemporary,
}

// actionOf converts an action of the engine. Source: https://www.sqlite.org/c3ref/c_alter_table.html
func actionOf(op int32, arg1, arg2 uintptr) Action {
	switch op {
	case lib.SQLITE_FUNCTION:
		return Action{Op: OpCall, Name: libc.GoString(arg2)}
	case lib.SQLITE_READ:
		return Action{Op: OpRead, Name: libc.GoString(arg1), On: libc.GoString(arg2)}
	case lib.SQLITE_PRAGMA:
		return Action{Op: OpPragma, Name: libc.GoString(arg1), On: libc.GoString(arg2), Argument: arg2 != 0}
	case lib.SQLITE_INSERT, lib.SQLITE_UPDATE, lib.SQLITE_DELETE:
		return Action{Op: OpChange, Name: libc.GoString(arg1)}
	case lib.SQLITE_DROP_TABLE, lib.SQLITE_DROP_INDEX:
		return Action{Op: OpDrop, Name: libc.GoString(arg1), On: libc.GoString(arg2)}
	case lib.SQLITE_ALTER_TABLE: // arg1 is the database.
		return Action{Op: OpAlter, On: libc.GoString(arg2)}
	case lib.SQLITE_CREATE_TRIGGER:
		return Action{Op: OpAlter, Name: libc.GoString(arg1), On: libc.GoString(arg2)}
	case lib.SQLITE_CREATE_TABLE, lib.SQLITE_CREATE_INDEX, lib.SQLITE_CREATE_VIEW, lib.SQLITE_DROP_VIEW, lib.SQLITE_DROP_TRIGGER, lib.SQLITE_REINDEX:
		return Action{Op: OpSchema, Name: libc.GoString(arg1), On: libc.GoString(arg2)}
	default:
		return Action{Op: ops[op]}
	}
}

// tableList is the pragma whose rows the Guard is asked about too: a table that is hidden as its argument has no row.
const tableList = "table_list"

// actions is what the authorizer has learned about one statement.
type actions struct {
	schema      bool
	alter       bool
	selects     bool
	createTable bool
	rows        bool // rows are read or changed
	query       bool // the statement is a query
	sequence    bool // sqlite_sequence is changed
	explain     bool // the statement is EXPLAIN
	files       bool // the statement is PRAGMA database_list, which shows the path of the file
	names       bool // the statement is PRAGMA table_list, which shows all tables
	pragma      bool
	rowid       bool     // a row id is read that is not a declared column
	calls       []string // functions
	tables      []string // tables and views that are read
	rewritten   []string // tables that are dropped or altered
}

// note records an action: op in the engine's form, a in converted form.
func (s *actions) note(op int32, a Action) {
	switch a.Op { //nolint:exhaustive // the others say nothing about the statement.
	case OpPragma:
		s.query, s.pragma = true, true
		s.files, s.names = strings.EqualFold(a.Name, "database_list"), strings.EqualFold(a.Name, tableList)
	case OpCall:
		if !slices.Contains(s.calls, a.Name) {
			s.calls = append(s.calls, a.Name)
		}
	case OpRead:
		if !slices.Contains(s.tables, a.Name) {
			s.tables = append(s.tables, a.Name)
		}
		s.rowid = s.rowid || a.On == "ROWID"
	case OpChange:
		s.rows = true
		s.sequence = s.sequence || strings.EqualFold(a.Name, "sqlite_sequence")
	case OpDrop, OpAlter, OpSchema:
		s.schema = true
	}
	switch op {
	case lib.SQLITE_CREATE_TABLE:
		s.createTable = true
	case lib.SQLITE_DROP_TABLE:
		s.rewritten = append(s.rewritten, a.Name)
	case lib.SQLITE_ALTER_TABLE:
		s.alter = true
		s.rewritten = append(s.rewritten, a.On)
	}
}

// onlyPragma reports whether the statement is a PRAGMA.
func (s *actions) onlyPragma() bool { return s.query && !s.rows && !s.schema }

// onAuthorize is called by the engine for each action of a statement, while the statement is prepared.
func onAuthorize(_ *libc.TLS, arg uintptr, op int32, arg1, arg2, _, _ uintptr) int32 { //nolint:revive // the engine's signature.
	c := ref[Conn](arg)
	if c.guard == nil {
		return lib.SQLITE_OK
	}
	switch op {
	case lib.SQLITE_SELECT:
		c.seen.selects, c.seen.rows, c.seen.query = true, true, true
		return lib.SQLITE_OK
	case lib.SQLITE_RECURSIVE:
		return lib.SQLITE_OK
	}
	a := actionOf(op, arg1, arg2)
	c.seen.note(op, a)
	a.Explained = c.seen.explain
	switch why := c.guard.Authorize(a); why {
	case nil:
		return lib.SQLITE_OK
	case ErrHidden:
		return lib.SQLITE_IGNORE
	default:
		c.denied = why
		return lib.SQLITE_DENY
	}
}

// allowed asks the guard about the actions that are known only after the whole statement is prepared. VACUUM is one of
// them: the engine does not call the authorizer for it.
func (s *Stmt) allowed() error {
	if s.guard == nil {
		return nil
	}
	for _, whole := range []struct {
		op Op
		is bool
	}{
		{OpVacuum, !s.seen.rows && !s.seen.schema && isVacuum.MatchString(s.own)},
		{OpCreateFrom, s.seen.createTable && s.seen.selects && !s.seen.alter},
		{OpWrite, !s.readOnly},
	} {
		if !whole.is {
			continue
		}
		if why := s.guard.Authorize(Action{Op: whole.op, Explained: s.seen.explain}); why != nil {
			return why
		}
	}
	return nil
}

// Patterns for the beginning of a text. blanks are the white space, comments and semicolons that the engine skips. It
// skips a vertical tab only behind other white space.
const (
	blanks  = `(?:\s[\s\v]*|\x{FEFF}|;|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*+[^*/])*(?:\*+/|\**$))*`
	explain = `EXPLAIN\b` + blanks
)

var (
	isBlank  = regexp.MustCompile(`^` + blanks + `$`)
	isVacuum = regexp.MustCompile(`(?i)^` + blanks + `(?:` + explain + `(?:QUERY\b` + blanks + `PLAN\b` + blanks + `)?)?VACUUM\b`)
)
