package sqlite

import (
	"regexp"
	"slices"
	"strings"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Guard determines which statements may be prepared.
type Guard uint8

const (
	// GuardOff is for the system's own statements and allows everything.
	GuardOff Guard = iota
	// GuardRead lets clients read the application's tables, nothing else.
	GuardRead
	// GuardWrite lets clients read and change the application's tables and schema, as far as changes can be replicated.
	GuardWrite
)

// actions is what the authorizer learned about one statement.
type actions struct {
	schema      bool
	alter       bool
	selects     bool
	createTable bool
	rows        bool     // rows are read or changed
	query       bool     // the statement is a query
	sequence    bool     // sqlite_sequence is changed
	rewritten   []string // tables that are dropped or altered
}

// onAuthorize is called by the engine for each action of a statement, while the statement is prepared. Source:
// https://www.sqlite.org/c3ref/c_alter_table.html
func onAuthorize(_ *libc.TLS, arg uintptr, op int32, arg1, arg2, _, _ uintptr) int32 { //nolint:revive // the engine's signature.
	c := ref[Conn](arg)
	if c.guard == GuardOff {
		return lib.SQLITE_OK
	}
	switch op {
	case lib.SQLITE_SELECT:
		c.seen.selects, c.seen.rows, c.seen.query = true, true, true
		return lib.SQLITE_OK
	case lib.SQLITE_RECURSIVE:
		return lib.SQLITE_OK
	case lib.SQLITE_FUNCTION:
		return c.authorizeFunction(libc.GoString(arg2))
	case lib.SQLITE_READ:
		return c.authorizeTable(libc.GoString(arg1))
	case lib.SQLITE_PRAGMA:
		c.seen.query = true
		return c.authorizePragma(libc.GoString(arg1), libc.GoString(arg2))
	}
	if c.guard == GuardRead {
		return c.deny(readOnlyMessage)
	}
	switch op {
	case lib.SQLITE_INSERT, lib.SQLITE_UPDATE, lib.SQLITE_DELETE:
		name := libc.GoString(arg1)
		c.seen.rows = true
		c.seen.sequence = c.seen.sequence || strings.EqualFold(name, sequenceTable)
		return c.authorizeTable(name)
	default:
		return c.authorizeSchema(op, libc.GoString(arg1), libc.GoString(arg2))
	}
}

// readOnlyMessage is rqlite's message, so that its clients recognize the error.
const readOnlyMessage = "attempt to change database via query operation"

func (c *Conn) deny(why string) int32 {
	c.denied = why
	return lib.SQLITE_DENY
}

// Internal reports whether name belongs to the system, ignoring case.
func Internal(name string) bool {
	return len(name) >= len(InternalPrefix) && strings.EqualFold(name[:len(InternalPrefix)], InternalPrefix)
}

func (c *Conn) authorizeTable(name string) int32 {
	if Internal(name) {
		return c.deny("no such table: " + name)
	}
	switch strings.ToLower(name) {
	case "sqlite_dbpage", "dbstat", "sqlite_stmt", "bytecode", "tables_used":
		return c.deny("no such table: " + name) // these show the file itself, and so internal tables.
	}
	return lib.SQLITE_OK
}

func (c *Conn) authorizeFunction(name string) int32 {
	if strings.EqualFold(name, "load_extension") {
		return c.deny("no such function: " + name)
	}
	return lib.SQLITE_OK
}

// authorizePragma lets clients inspect the schema, also through table-valued functions such as pragma_table_info.
// Internal tables appear not to exist.
func (c *Conn) authorizePragma(name, arg string) int32 {
	if Internal(arg) {
		return lib.SQLITE_IGNORE
	}
	switch strings.ToLower(name) {
	case "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list":
		return lib.SQLITE_OK
	case "quick_check":
		if c.seen.alter { // the engine's own check of ADD COLUMN.
			return lib.SQLITE_OK
		}
	}
	return c.deny("PRAGMA " + name + " is not supported")
}

// authorizeSchema decides on actions that neither read nor change rows.
func (c *Conn) authorizeSchema(op int32, arg1, arg2 string) int32 {
	switch op {
	case lib.SQLITE_CREATE_TABLE:
		c.seen.createTable = true
	case lib.SQLITE_DROP_TABLE:
		c.seen.rewritten = append(c.seen.rewritten, arg1)
	case lib.SQLITE_ALTER_TABLE: // arg1 is the database.
		c.seen.alter = true
		c.seen.rewritten = append(c.seen.rewritten, arg2)
		arg1 = ""
	case lib.SQLITE_CREATE_INDEX, lib.SQLITE_DROP_INDEX, lib.SQLITE_CREATE_VIEW, lib.SQLITE_DROP_VIEW,
		lib.SQLITE_CREATE_TRIGGER, lib.SQLITE_DROP_TRIGGER, lib.SQLITE_REINDEX:
	default:
		return c.deny(refusal(op))
	}
	c.seen.schema = true
	if name, ok := c.protects(op, arg1, arg2); ok {
		return c.deny(name + " belongs to the application and cannot be altered or dropped")
	}
	if Internal(arg1) || Internal(arg2) {
		return c.deny("names that begin with " + InternalPrefix + " are reserved")
	}
	return lib.SQLITE_OK
}

// protects returns the protected object that a schema change would alter, if any.
func (c *Conn) protects(op int32, arg1, arg2 string) (string, bool) {
	is := func(name string) bool {
		return slices.ContainsFunc(c.protected, func(p string) bool { return strings.EqualFold(p, name) })
	}
	switch op {
	case lib.SQLITE_DROP_TABLE, lib.SQLITE_DROP_INDEX:
		return arg1, is(arg1)
	case lib.SQLITE_ALTER_TABLE, lib.SQLITE_CREATE_TRIGGER:
		return arg2, is(arg2)
	}
	return "", false
}

// refusal returns the message for an action that clients may not perform.
func refusal(op int32) string {
	switch op {
	case lib.SQLITE_TRANSACTION, lib.SQLITE_SAVEPOINT:
		return "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"
	case lib.SQLITE_ATTACH, lib.SQLITE_DETACH:
		return "ATTACH and DETACH are not supported"
	case lib.SQLITE_CREATE_VTABLE, lib.SQLITE_DROP_VTABLE:
		return "virtual tables are not supported, they cannot be replicated"
	case lib.SQLITE_ANALYZE:
		return "ANALYZE is not supported"
	case lib.SQLITE_CREATE_TEMP_INDEX, lib.SQLITE_CREATE_TEMP_TABLE, lib.SQLITE_CREATE_TEMP_TRIGGER, lib.SQLITE_CREATE_TEMP_VIEW,
		lib.SQLITE_DROP_TEMP_INDEX, lib.SQLITE_DROP_TEMP_TABLE, lib.SQLITE_DROP_TEMP_TRIGGER, lib.SQLITE_DROP_TEMP_VIEW:
		return "temporary objects are not supported"
	default:
		return "this statement is not supported"
	}
}

// vacuum reports whether the statement is VACUUM, for which the engine does not call the authorizer.
func (s *Stmt) vacuum() bool {
	return !s.seen.rows && !s.seen.schema && isVacuum.MatchString(libc.GoString(lib.Xsqlite3_sql(s.c.tls, s.p)))
}

var isVacuum = regexp.MustCompile(`(?i)^(?:\s|--[^\n]*\n|(?s:/\*.*?\*/)|;)*VACUUM\b`)

// allowed checks what is known only after the whole statement is prepared.
func (s *Stmt) allowed() error {
	switch {
	case s.guard != GuardOff && s.vacuum():
		return dbaas.Errorf(dbaas.CodeInvalid, "VACUUM is not supported")
	case s.guard == GuardRead && !s.readOnly:
		return dbaas.Errorf(dbaas.CodeInvalid, readOnlyMessage)
	case s.guard == GuardWrite && s.seen.createTable && s.seen.selects && !s.seen.alter:
		return dbaas.Errorf(dbaas.CodeInvalid, "CREATE TABLE AS SELECT is not supported, create the table and then insert")
	}
	return nil
}
