package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
)

// table is what capture, apply and hashes know about one application table.
type table struct {
	name string
	// columns are the columns with values of their own: no generated columns, and not the INTEGER PRIMARY KEY, which is
	// the row id.
	columns []string
	index   []int32 // the number of each of columns in the table
	// rowid is the name of the row id, "" for a table WITHOUT ROWID. It is also "" if columns take all names of the row
	// id; such a table is rejected.
	rowid        string
	withoutRowid bool
	key          []int // WITHOUT ROWID: places of the primary key in columns
	sequence     bool  // has AUTOINCREMENT, as far as the SQL text shows

	insert, remove string // statements of Apply, "" until they are used
}

// Tables returns the names of the application's tables in order.
func (c *Conn) Tables() ([]string, error) {
	var names []string
	err := c.Query(`SELECT name FROM sqlite_master WHERE type='table' ORDER BY name`, func(r Row) error {
		if name := r.Text(0); !Internal(name) && !strings.HasPrefix(name, "sqlite_") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return names, nil
}

// loadTables returns the application's tables by name, cached until the next schema change on c.
func (c *Conn) loadTables() (map[string]*table, error) {
	if c.tables != nil {
		return c.tables, nil
	}
	tables := map[string]*table{}
	err := c.Query(`SELECT l.name, l.wr, m.sql FROM pragma_table_list l JOIN sqlite_master m ON m.name=l.name AND m.type='table'
		WHERE l.schema='main' AND l.type='table'`, func(r Row) error {
		name := r.Text(0)
		if Internal(name) || strings.HasPrefix(name, "sqlite_") {
			return nil
		}
		t := &table{name: name, withoutRowid: r.Int(1) != 0, sequence: strings.Contains(strings.ToUpper(r.Text(2)), "AUTOINCREMENT")}
		tables[name] = t
		return c.loadColumns(t)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	c.tables = tables
	return tables, nil
}

// rowidNames are SQLite's names for the row id; a column of that name takes precedence.
var rowidNames = [...]string{"rowid", "_rowid_", "oid"}

func (c *Conn) loadColumns(t *table) error {
	alias, err := c.rowidAlias(t)
	if err != nil {
		return err
	}
	var all []string
	keys := map[int]int{} // place in the primary key -> place in columns
	err = c.Query(`SELECT cid, name, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid`, func(r Row) error {
		name := r.Text(1)
		all = append(all, strings.ToLower(name))
		if r.Int(3) != 0 || name == alias {
			return nil
		}
		if pk := int(r.Int(2)); pk > 0 {
			keys[pk] = len(t.columns)
		}
		t.columns = append(t.columns, name)
		t.index = append(t.index, int32(r.Int(0))) //nolint:gosec // at most 2000 columns.
		return nil
	}, dbaas.Text(t.name))
	if err != nil || t.withoutRowid {
		for n := range len(keys) {
			t.key = append(t.key, keys[n+1])
		}
		return err
	}
	if t.rowid = alias; alias != "" {
		return nil
	}
	for _, name := range rowidNames {
		if !slices.Contains(all, name) {
			t.rowid = name
			break
		}
	}
	return nil
}

// rowidAlias returns the name of the column that is the row id itself, or "": a primary key of one INTEGER column
// without an index of its own.
func (c *Conn) rowidAlias(t *table) (string, error) {
	if t.withoutRowid {
		return "", nil
	}
	name, keys, indexes := "", 0, 0
	err := c.Query(`SELECT name, type FROM pragma_table_xinfo(?) WHERE pk>0`, func(r Row) error {
		if keys++; strings.EqualFold(r.Text(1), "INTEGER") {
			name = r.Text(0)
		}
		return nil
	}, dbaas.Text(t.name))
	if err == nil && name != "" {
		err = c.Query(`SELECT 1 FROM pragma_index_list(?) WHERE origin='pk'`, func(Row) error {
			indexes++
			return nil
		}, dbaas.Text(t.name))
	}
	if keys != 1 || indexes > 0 {
		name = ""
	}
	return name, err
}

// where returns the condition that identifies one row, with parameters from number 1 on.
func (t *table) where() string {
	if !t.withoutRowid {
		return QuoteName(t.rowid) + "=?1"
	}
	terms := make([]string, len(t.key))
	for n, k := range t.key {
		terms[n] = fmt.Sprintf("%s=?%d", QuoteName(t.columns[k]), n+1)
	}
	return strings.Join(terms, " AND ")
}

// all returns the statement that reads all of the table's rows in storage order.
func (t *table) all() string {
	if !t.withoutRowid {
		return fmt.Sprintf("SELECT %s, * FROM %s ORDER BY 1", QuoteName(t.rowid), QuoteName(t.name))
	}
	names := make([]string, len(t.key))
	for n, k := range t.key {
		names[n] = QuoteName(t.columns[k])
	}
	return "SELECT * FROM " + QuoteName(t.name) + " ORDER BY " + strings.Join(names, ",")
}
