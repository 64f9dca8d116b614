// Package replication has the rules that make replicas equal to persdb: which statements clients may run (Guard), how a
// commit's rows are recorded (Capture) and applied (Applier), what an installed snapshot keeps (DropOwn), and how two
// files are compared (Hashes). It works on connections of internal/sqlite.
package replication

import (
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// prefix begins the names of the system's own tables. Clients cannot use such names. Captures and hashes leave these
// tables out. Of those in a snapshot, a replica keeps only the table with the position.
const prefix = "rs_"

// Guard decides what clients' statements may do. It has no state, so any number of connections may share a Guard.
type Guard struct {
	writes    bool
	protected []string
}

// ReadGuard lets clients read the application's tables, nothing else.
var ReadGuard = &Guard{}

// WriteGuard returns a Guard that lets clients read and change the application's tables and schema, as far as replicas
// can follow. protected names tables and indexes that clients may read and write but not drop or alter. Clients cannot
// create triggers or indexes that are UNIQUE, partial or on an expression on these tables either; a Capture with the Guard
// refuses the indexes.
func WriteGuard(protected []string) *Guard { return &Guard{writes: true, protected: protected} }

// Authorize implements sqlite.Guard. A refusal is CodeInvalid.
func (g *Guard) Authorize(a sqlite.Action) *dbaas.Error {
	switch a.Op { //nolint:exhaustive // the others are refused.
	case sqlite.OpCall:
		return authorizeFunction(a.Name)
	case sqlite.OpRead:
		return authorizeTable(a.Name)
	case sqlite.OpPragma:
		return authorizePragma(a)
	case sqlite.OpChange:
		return authorizeTable(a.Name)
	case sqlite.OpDrop, sqlite.OpAlter, sqlite.OpSchema:
		return g.authorizeSchema(a)
	case sqlite.OpWrite: // asked last, and not for EXPLAIN
		if !g.writes {
			return refused(readOnlyMessage)
		}
		return nil
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
		return noSuchTable(name)
	}
	switch strings.ToLower(name) {
	case "sqlite_dbpage", "dbstat", "sqlite_stmt", "bytecode", "tables_used", "pragma_database_list", "pragma_table_list":
		return noSuchTable(name) // these show the file itself, including internal tables.
	}
	return nil
}

func noSuchTable(name string) *dbaas.Error { return refused("no such table: " + name) }

// authorizeFunction refuses functions that load code, sqlite_offset (its result differs on replicas), and the functions of
// the engine's R-Trees: a single call may run for minutes without a check of the clock, or run other statements.
func authorizeFunction(name string) *dbaas.Error {
	switch lower := strings.ToLower(name); {
	case lower == "load_extension", lower == "sqlite_offset", strings.HasPrefix(lower, "geopoly_"), lower == "rtreecheck", lower == "rtreedepth", lower == "rtreenode":
		return refused("no such function: " + name)
	}
	return nil
}

// pragmas are the pragmas that clients may use, also through table-valued functions such as pragma_table_info. They
// show the schema and the settings. The value reports whether an argument names the object to show. For the others an
// argument would set something.
var pragmas = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"foreign_key_list": true, "foreign_key_check": true, "quick_check": true, "integrity_check": true,
	"foreign_keys": false, "journal_mode": false, "user_version": false, "encoding": false, "compile_options": false,
	"read_uncommitted": false, "database_list": false,
}

// authorizePragma lets clients use pragmas. Internal tables appear not to exist. foreign_keys=ON, which many clients send,
// has no effect: foreign keys are always on.
func authorizePragma(a sqlite.Action) *dbaas.Error {
	name := strings.ToLower(a.Name)
	named, known := pragmas[name]
	switch {
	case !known, a.Explained && (name == "database_list" || name == "table_list"): // the program holds the path of the file, or all names
		return refused("PRAGMA " + a.Name + " is not supported")
	case name == "foreign_keys" && strings.EqualFold(a.On, "ON"), internal(a.On):
		return sqlite.ErrHidden
	case a.Argument && !named:
		return refused("PRAGMA " + a.Name + " cannot be set")
	default:
		return nil
	}
}

// authorizeSchema decides on changes of the schema.
func (g *Guard) authorizeSchema(a sqlite.Action) *dbaas.Error {
	altered := a.Name
	if a.Op == sqlite.OpAlter {
		altered = a.On
	}
	same := func(name string) bool { return sqltext.SameName(name, altered) }
	if a.Op != sqlite.OpSchema && slices.ContainsFunc(g.protected, same) {
		return refused(altered + " belongs to the application and cannot be altered or dropped")
	}
	switch {
	case internal(a.On):
		return noSuchTable(a.On)
	case internal(a.Name) && a.Op == sqlite.OpDrop:
		return noSuchTable(a.Name)
	case internal(a.Name):
		return refused("names that begin with " + prefix + " are reserved")
	default:
		return nil
	}
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
	case sqlite.OpVacuum:
		return "VACUUM is not supported"
	case sqlite.OpTemporary:
		return "temporary objects are not supported"
	case sqlite.OpCreateFrom:
		return "CREATE TABLE AS SELECT is not supported, create the table and then insert"
	default:
		return "this statement is not supported"
	}
}
