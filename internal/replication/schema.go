package replication

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// CheckCalls returns CodeInvalid for a schema change that calls these functions if it may fail on a replica although it
// succeeds here. ALTER TABLE ... ADD CHECK looks at the rows wherever it runs, and random() or changes() are different there.
func CheckCalls(calls []string) error {
	if !slices.Contains(calls, "sqlite_fail") { // the engine's own function that ends such a look
		return nil
	}
	for _, name := range calls {
		if name = strings.ToLower(name); !deterministic[name] && !slices.Contains(alterCalls, name) {
			return dbaas.Errorf(dbaas.CodeInvalid, "a CHECK that ALTER TABLE adds cannot call %s(), whose result may be different on a replica", name)
		}
	}
	return nil
}

// alterCalls are the engine's own functions with which ALTER TABLE checks the rows and edits the text of the table. No client can
// call them.
var alterCalls = []string{"sqlite_fail", "sqlite_find_constraint", "sqlite_add_constraint", "sqlite_drop_constraint"}

// maxColumns is how many columns a result may have: SQLITE_MAX_COLUMN.
const maxColumns = 2000

// checkReplicable returns CodeInvalid, with a message for the client, for a schema that replicas could not follow, that
// uses reserved names, or that has an index on a protected table that could reject rows. It returns CodeTooLarge for
// counters that no entry has room for, and for a schema that is too large. before are the tables before the schema change, and
// size is the bytes of the schema then.
func (k *Capture) checkReplicable(before map[string]*table, size int64) error {
	tables, err := k.load()
	if err != nil {
		return err
	}
	for _, t := range tables {
		switch {
		case t.repeated:
			return dbaas.Errorf(dbaas.CodeInvalid, "table %s names a column twice in its PRIMARY KEY", t.name)
		case t.withoutRowid:
		case t.rowid == "" && !t.rowidKey:
			return dbaas.Errorf(dbaas.CodeInvalid, "table %s needs a PRIMARY KEY, its column _rowid_ hides the row id", t.name)
		case len(t.stored) >= maxColumns: // a row is read with its row id
			return dbaas.Errorf(dbaas.CodeInvalid, "table %s has too many columns, at most %d are possible", t.name, maxColumns-1)
		}
	}
	if err = checkCounters(before, tables); err != nil {
		return err
	}
	for _, check := range []func() error{k.checkProtected, k.checkReserved, k.checkTexts} {
		if err := check(); err != nil {
			return err
		}
	}
	return checkSize(k.c, size)
}

// maxSchema bounds the bytes of the schema. Each connection keeps the whole schema parsed, which may take 28 times as many bytes, and
// no limit of a statement counts that.
const maxSchema = 4 << 20

// checkSize returns CodeTooLarge if the schema is larger than maxSchema. A change that makes it no larger is accepted: the schema may
// be older than this limit.
func checkSize(c *sqlite.Conn, before int64) error {
	size, err := schemaSize(c)
	if err == nil && size > maxSchema && size > before {
		return dbaas.Errorf(dbaas.CodeTooLarge, "the schema would have more than %d bytes", maxSchema)
	}
	return err
}

// schemaSize returns the bytes of the names and texts in the schema. An index that the engine makes by itself has only names.
func schemaSize(c *sqlite.Conn) (size int64, err error) {
	err = c.Query("SELECT total(octet_length(name)+octet_length(tbl_name)+coalesce(octet_length(sql), 0)) FROM sqlite_master", func(r sqlite.Row) error {
		size = r.Int(0)
		return nil
	})
	return size, err
}

// checkProtected rejects indexes of clients on protected tables that could reject rows of the application: UNIQUE, partial, or on
// an expression, which may fail.
func (k *Capture) checkProtected() error {
	const risky = `SELECT 1 FROM pragma_index_list(?) l WHERE origin='c' AND ("unique" OR partial OR EXISTS(SELECT 1 FROM pragma_index_xinfo(l.name) WHERE key AND cid=-2))`
	for _, name := range k.guard.protected {
		err := k.c.Query(risky, func(sqlite.Row) error {
			return dbaas.Errorf(dbaas.CodeInvalid, "%s belongs to the application and cannot have another index that is UNIQUE, partial or on an expression", name)
		}, dbaas.Text(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkReserved rejects objects that got a reserved name through a rename, and foreign keys on internal tables.
func (k *Capture) checkReserved() error {
	names, err := internalNames(k.c)
	if err != nil {
		return err
	}
	for name := range names {
		if !k.reserved[name] {
			return dbaas.Errorf(dbaas.CodeInvalid, "names that begin with %s are reserved", prefix)
		}
	}
	return k.c.Query(`SELECT m.name, f."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type='table'`, func(r sqlite.Row) error {
		if internal(r.Text(1)) && !internal(r.Text(0)) {
			return dbaas.Errorf(dbaas.CodeInvalid, "no such table: %s", r.Text(1))
		}
		return nil
	})
}

// systemTables are the internal tables of persdb's file.
var systemTables = []string{positionTable, "rs_sums", "rs_cluster"}

// checkTexts rejects views and triggers whose text has the name of one of systemTables as a word: replicas lack some of these
// tables, and could rename nothing while such a view or trigger exists.
func (k *Capture) checkTexts() error {
	return k.c.Query(`SELECT name, sql FROM sqlite_master WHERE type IN ('view', 'trigger') AND sql LIKE '%rs\_%' ESCAPE '\'`, func(r sqlite.Row) error {
		for _, word := range reservedWord.FindAllString(r.Text(1), -1) {
			if slices.Contains(systemTables, strings.ToLower(word)) {
				return dbaas.Errorf(dbaas.CodeInvalid, "%s refers to %s, which belongs to the system", r.Text(0), word)
			}
		}
		return nil
	})
}

// reservedWord finds words that begin with prefix.
var reservedWord = regexp.MustCompile(`(?i)\b` + prefix + `\w+`)

// internalNames returns the names of the system's own tables and indexes.
func internalNames(c *sqlite.Conn) (map[string]bool, error) {
	names := map[string]bool{}
	err := c.Query(`SELECT name FROM sqlite_master WHERE substr(lower(name),1,3)='rs_'`, func(r sqlite.Row) error {
		names[r.Text(0)] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list internal tables: %w", err)
	}
	return names, nil
}

// unreferenced reports whether no row can refer to a row of the table by a foreign key: every table with such a key is
// empty. A table that refers to itself never counts as unreferenced.
func unreferenced(c *sqlite.Conn, name string) (bool, error) {
	var children []string
	err := c.Query(`SELECT DISTINCT m.name FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type='table' AND lower(f."table")=lower(?)`, func(r sqlite.Row) error {
		children = append(children, r.Text(0))
		return nil
	}, dbaas.Text(name))
	for _, child := range children {
		if err != nil || sqltext.SameName(child, name) {
			return false, err
		}
		empty := true
		err = c.QueryOnce("SELECT 1 FROM "+QuoteName(child)+" LIMIT 1", func(sqlite.Row) error {
			empty = false
			return nil
		})
		if !empty {
			return false, err
		}
	}
	return err == nil, err
}

// hasTrigger reports whether any trigger is on the table.
func hasTrigger(c *sqlite.Conn, name string) (found bool, err error) {
	err = c.Query("SELECT 1 FROM sqlite_master WHERE type='trigger' AND lower(tbl_name)=lower(?)", func(sqlite.Row) error {
		found = true
		return nil
	}, dbaas.Text(name))
	return found, err
}
