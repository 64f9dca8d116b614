package replication

import (
	"errors"
	"io"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// foreignGuard lets the check of a foreign file read, and call those functions of the file's schema
// that have no side effect.
type foreignGuard struct{}

// Authorize implements sqlite.Guard.
func (foreignGuard) Authorize(a sqlite.Action) *dbaas.Error {
	switch a.Op { //nolint:exhaustive // the others change something.
	case sqlite.OpRead, sqlite.OpPragma:
		return nil
	case sqlite.OpCall:
		return authorizeFunction(a.Name)
	}
	return refused(readOnlyMessage)
}

// DumpForeign is DumpSQL for a file that a client sent. The file may be hostile: c must be
// read-only and have a time limit. DumpForeign returns CodeInvalid for a file that is damaged, takes
// too long to read, or has virtual tables.
func DumpForeign(c *sqlite.Conn, w io.Writer) error {
	if err := CheckForeign(c); err != nil {
		return err
	}
	return foreignError(DumpSQL(c, w, nil))
}

// CheckForeign returns CodeInvalid for a file that is damaged or has virtual tables. It must run before anything else
// reads the file. It runs within the limits of c, like a client's statement, and computes no expression of the file's schema.
func CheckForeign(c *sqlite.Conn) error { return foreignError(checkForeign(c)) }

func checkForeign(c *sqlite.Conn) error {
	for _, sql := range []string{"PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"} {
		if err := c.ExecOnce(sql); err != nil {
			return err
		}
	}
	virtual, err := c.VirtualTable(foreignGuard{})
	if err == nil && virtual != "" {
		return dbaas.Errorf(dbaas.CodeInvalid, "table %s of the file is a virtual table, which is not supported", virtual)
	}
	damage := ""
	if err == nil {
		damage, err = c.Damage(foreignGuard{})
	}
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code == dbaas.CodeTooLarge {
		return dbaas.WrapError(dbaas.CodeInvalid, "the file cannot be checked: "+e.Message, err)
	}
	if err != nil {
		return err
	}
	if damage != "" {
		return dbaas.Errorf(dbaas.CodeInvalid, "the file is damaged: %s", damage)
	}
	return nil
}

// CheckForeignSchema returns CodeInvalid if a file that CheckForeign has passed has what clients cannot make: a table that
// replicas could not follow, an object with a reserved name, a reference to an internal table, or a trigger or risky index
// on a protected table. The system's own statements would run such a trigger without a guard. It returns CodeTooLarge if the
// schema is too large.
func CheckForeignSchema(c *sqlite.Conn, protected []string) error {
	k := &Capture{schema: schema{c: c}, guard: WriteGuard(protected)} // reserved is empty, so all internal names are refused.
	tables, err := k.load()
	if err != nil {
		return err
	}
	err = c.Query("SELECT name, tbl_name FROM sqlite_master WHERE type='trigger'", func(r sqlite.Row) error {
		if why := k.guard.authorizeSchema(sqlite.Action{Op: sqlite.OpAlter, Name: r.Text(0), On: r.Text(1)}); why != nil {
			return refused("trigger " + r.Text(0) + ": " + why.Message)
		}
		return nil
	})
	if err == nil {
		err = k.checkReplicable(tables, 0) // as if all tables were old: their counters may be larger than is permitted now
	}
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code == dbaas.CodeInvalid {
		return dbaas.Errorf(dbaas.CodeInvalid, "the file has something that clients cannot make; drop it from the file and try again: %s", e.Message)
	}
	return err
}

// foreignError converts the error of a file that cannot be read to CodeInvalid, the client's fault,
// unless this process lacks a resource.
func foreignError(err error) error {
	switch e, ok := errors.AsType[*dbaas.Error](err); {
	case err == nil:
		return nil
	case ok && (e.Code == dbaas.CodeUnavailable || e.Code == dbaas.CodeFull || e.Code == dbaas.CodeTooLarge || e.Code == dbaas.CodeInvalid):
		return e
	case ok && e.Code == dbaas.CodeTimeout:
		return dbaas.WrapError(dbaas.CodeInvalid, "the file takes too long to read", err)
	case ok:
		return dbaas.WrapError(dbaas.CodeInvalid, "the file is damaged: "+e.Message, err)
	}
	return dbaas.WrapError(dbaas.CodeInternal, "the file could not be read", err)
}
