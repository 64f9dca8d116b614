// Package replication has the rules that make replicas equal to persdb: which statements clients may run (Guard), how a
// commit's rows are recorded (Capture) and applied (Applier), what an installed snapshot keeps (DropOwn), and how two files
// are compared (Hashes). It holds them on connections of internal/sqlite.
package replication

import (
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// prefix begins the names of the system's own tables. Clients cannot name them, and captures, hashes and snapshots leave
// them out, except for the position.
const prefix = "rs_"

// Guard decides what clients' statements may do. It has no state, so any number of connections may share a Guard.
type Guard struct {
	writes    bool
	protected []string
}

// ReadGuard lets clients read the application's tables, nothing else.
var ReadGuard = &Guard{}

// WriteGuard returns a Guard that lets clients read and change the application's tables and schema, as far as replicas can
// follow. protected names tables and indexes that clients may read and write but not drop or alter. On these tables
// clients cannot create triggers or UNIQUE indexes either; a Capture with the Guard refuses the latter.
func WriteGuard(protected []string) *Guard { return &Guard{writes: true, protected: protected} }

// Authorize implements sqlite.Guard. What it refuses is CodeInvalid.
func (g *Guard) Authorize(a sqlite.Action) *dbaas.Error {
	switch a.Op { //nolint:exhaustive // the others change something.
	case sqlite.OpCall:
		return authorizeFunction(a.Name)
	case sqlite.OpRead:
		return authorizeTable(a.Name)
	case sqlite.OpPragma:
		return authorizePragma(a)
	case sqlite.OpVacuum:
		return refused("VACUUM is not supported")
	}
	if !g.writes {
		return refused(readOnlyMessage)
	}
	switch a.Op { //nolint:exhaustive // the others are refused.
	case sqlite.OpWrite:
		return nil
	case sqlite.OpChange:
		return authorizeTable(a.Name)
	case sqlite.OpDrop, sqlite.OpAlter, sqlite.OpSchema:
		return g.authorizeSchema(a)
	default:
		return refused(refusal(a.Op))
	}
}

// readOnlyMessage is rqlite's message, so that its clients recognize the error.
const readOnlyMessage = "attempt to change database via query operation"

func refused(why string) *dbaas.Error { return &dbaas.Error{Code: dbaas.CodeInvalid, Message: why} }

// internal reports whether name belongs to the system, ignoring case.
func internal(name string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

func authorizeTable(name string) *dbaas.Error {
	if internal(name) {
		return refused("no such table: " + name)
	}
	switch strings.ToLower(name) {
	case "sqlite_dbpage", "dbstat", "sqlite_stmt", "bytecode", "tables_used":
		return refused("no such table: " + name) // these show the file itself, and so internal tables.
	}
	return nil
}

func authorizeFunction(name string) *dbaas.Error {
	if strings.EqualFold(name, "load_extension") {
		return refused("no such function: " + name)
	}
	return nil
}

// authorizePragma lets clients inspect the schema, also through table-valued functions such as pragma_table_info.
// Internal tables appear not to exist.
func authorizePragma(a sqlite.Action) *dbaas.Error {
	if internal(a.On) {
		return sqlite.ErrHidden
	}
	switch strings.ToLower(a.Name) {
	case "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list":
		return nil
	case "quick_check":
		if a.Altering { // the engine's own check of ADD COLUMN.
			return nil
		}
	}
	return refused("PRAGMA " + a.Name + " is not supported")
}

// authorizeSchema decides on changes of the schema.
func (g *Guard) authorizeSchema(a sqlite.Action) *dbaas.Error {
	altered := a.Name
	if a.Op == sqlite.OpAlter {
		altered = a.On
	}
	same := func(name string) bool { return strings.EqualFold(name, altered) }
	if a.Op != sqlite.OpSchema && slices.ContainsFunc(g.protected, same) {
		return refused(altered + " belongs to the application and cannot be altered or dropped")
	}
	if internal(a.Name) || internal(a.On) {
		return refused("names that begin with " + prefix + " are reserved")
	}
	return nil
}

// refusal returns the message for an action that clients may not perform.
func refusal(op sqlite.Op) string {
	switch op { //nolint:exhaustive // the others have no message of their own.
	case sqlite.OpTransaction:
		return "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"
	case sqlite.OpAttach:
		return "ATTACH and DETACH are not supported"
	case sqlite.OpVirtualTable:
		return "virtual tables are not supported, they cannot be replicated"
	case sqlite.OpAnalyze:
		return "ANALYZE is not supported"
	case sqlite.OpTemporary:
		return "temporary objects are not supported"
	case sqlite.OpCreateFrom:
		return "CREATE TABLE AS SELECT is not supported, create the table and then insert"
	default:
		return "this statement is not supported"
	}
}
