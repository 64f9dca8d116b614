package sqlite

import (
	"fmt"
	"strings"

	"rideshare/internal/dbaas"
)

// Tables returns the names of the application's tables in order.
func (c *Conn) Tables() ([]string, error) {
	var names []string
	err := c.Query(`SELECT name FROM sqlite_master WHERE type='table' ORDER BY name`, func(r Row) error {
		name := r.Text(0)
		if !Internal(name) && !strings.HasPrefix(name, "sqlite_") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return names, nil
}

// keyColumn is one column of a primary key.
type keyColumn struct {
	name    string
	decl    string
	notNull bool
}

// primaryKey returns the columns of a table's primary key in their order.
func (c *Conn) primaryKey(table string) ([]keyColumn, error) {
	var key []keyColumn
	err := c.Query(`SELECT name, type, "notnull" FROM pragma_table_xinfo(?) WHERE pk>0 ORDER BY pk`, func(r Row) error {
		key = append(key, keyColumn{name: r.Text(0), decl: r.Text(1), notNull: r.Int(2) != 0})
		return nil
	}, dbaas.Text(table))
	if err != nil {
		return nil, fmt.Errorf("primary key of %s: %w", table, err)
	}
	return key, nil
}

// CheckReplicable refuses, with CodeInvalid and a message for the client, a schema
// whose rows a changeset cannot carry: SQLite's sessions skip tables without a
// primary key and rows with NULL in it, without an error. It is called after
// each schema change, and the caller undoes the change.
func (c *Conn) CheckReplicable() error {
	tables, err := c.Tables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := c.checkKey(t); err != nil {
			return err
		}
	}
	return c.checkReserved()
}

func (c *Conn) checkKey(table string) error {
	key, err := c.primaryKey(table)
	if err != nil {
		return err
	}
	if len(key) == 0 {
		return dbaas.Errorf(dbaas.CodeInvalid, "table %s has no PRIMARY KEY, its rows could not be replicated", table)
	}
	rowid, err := c.keyIsRowid(table, key)
	if err != nil || rowid {
		return err
	}
	for _, k := range key {
		if !k.notNull {
			return dbaas.Errorf(dbaas.CodeInvalid, "column %s of table %s is part of the PRIMARY KEY and must be NOT NULL", k.name, table)
		}
	}
	return nil
}

// keyIsRowid reports whether the primary key is the rowid itself, which is never
// NULL: one INTEGER column without an index of its own.
func (c *Conn) keyIsRowid(table string, key []keyColumn) (bool, error) {
	if len(key) != 1 || !strings.EqualFold(key[0].decl, "INTEGER") {
		return false, nil
	}
	indexes := 0
	err := c.Query(`SELECT 1 FROM pragma_index_list(?) WHERE origin='pk'`, func(Row) error {
		indexes++
		return nil
	}, dbaas.Text(table))
	return indexes == 0, err
}

// checkReserved refuses objects that got a reserved name by a rename, and foreign
// keys on internal tables.
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
