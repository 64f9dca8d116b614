package sqlite

import (
	"fmt"
	"strings"

	"rideshare/internal/dbaas"
)

// CheckReplicable returns CodeInvalid, with a message for the client, for a schema that replicas could not follow, that
// uses reserved names, or that changes a protected table (Options.Protected). Call it after each schema change, and undo
// the change if it fails.
func (c *Conn) CheckReplicable() error {
	c.tables = nil
	tables, err := c.loadTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.rowid == "" && !t.withoutRowid {
			return dbaas.Errorf(dbaas.CodeInvalid, "table %s needs a PRIMARY KEY, its column _rowid_ hides the row id", t.name)
		}
	}
	if err := c.checkProtected(); err != nil {
		return err
	}
	return c.checkReserved()
}

// checkProtected rejects UNIQUE indexes of clients on protected tables: they would reject rows that the application
// writes.
func (c *Conn) checkProtected() error {
	for _, name := range c.protected {
		err := c.Query(`SELECT 1 FROM pragma_index_list(?) WHERE "unique" AND origin='c'`, func(Row) error {
			return dbaas.Errorf(dbaas.CodeInvalid, "%s belongs to the application and cannot have another UNIQUE index", name)
		}, dbaas.Text(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkReserved rejects objects that got a reserved name through a rename, and foreign keys on internal tables.
func (c *Conn) checkReserved() error {
	names, err := c.internalNames()
	if err != nil {
		return err
	}
	for name := range names {
		if c.reserved != nil && !c.reserved[name] {
			return dbaas.Errorf(dbaas.CodeInvalid, "names that begin with %s are reserved", InternalPrefix)
		}
	}
	return c.Query(`SELECT m.name, f."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type='table'`, func(r Row) error {
		if Internal(r.Text(1)) && !Internal(r.Text(0)) {
			return dbaas.Errorf(dbaas.CodeInvalid, "no such table: %s", r.Text(1))
		}
		return nil
	})
}

// internalNames returns the names of the system's own tables and indexes.
func (c *Conn) internalNames() (map[string]bool, error) {
	names := map[string]bool{}
	err := c.Query(`SELECT name FROM sqlite_master WHERE substr(lower(name),1,3)='rs_'`, func(r Row) error {
		names[r.Text(0)] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list internal tables: %w", err)
	}
	return names, nil
}

// SchemaVersion returns SQLite's version number of the schema, which changes with each schema change.
func (c *Conn) SchemaVersion() (version int64, err error) {
	err = c.Query("PRAGMA schema_version", func(r Row) error {
		version = r.Int(0)
		return nil
	})
	return version, err
}

// unreferenced reports whether no row refers to a row of the table by a foreign key: every table with such a key is
// empty. A table that refers to itself counts as referring.
func (c *Conn) unreferenced(name string) (bool, error) {
	var children []string
	err := c.Query(`SELECT DISTINCT m.name FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type='table' AND lower(f."table")=lower(?)`, func(r Row) error {
		children = append(children, r.Text(0))
		return nil
	}, dbaas.Text(name))
	for _, child := range children {
		if err != nil || strings.EqualFold(child, name) {
			return false, err
		}
		empty := true
		err = c.queryOnce("SELECT 1 FROM "+QuoteName(child)+" LIMIT 1", func(Row) error {
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
func (c *Conn) hasTrigger(name string) (found bool, err error) {
	err = c.Query("SELECT 1 FROM sqlite_master WHERE type='trigger' AND lower(tbl_name)=lower(?)", func(Row) error {
		found = true
		return nil
	}, dbaas.Text(name))
	return found, err
}
