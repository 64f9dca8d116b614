package replication

import (
	"fmt"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// table is what capture, apply and hashes know about one application table.
type table struct {
	name string
	// columns are the columns that store a value. Generated columns are left out, and so is an INTEGER PRIMARY KEY, since
	// it is the row id.
	columns []string
	index   []int32 // the number of each of columns in the table
	// stored are the quoted names of all columns that the file has, generated ones too if they are STORED, and at has the place of each
	// of columns among them. A VIRTUAL column is never read: its expression may need any amount of memory.
	stored []string
	at     []int
	reals  []int32 // the numbers of the columns with affinity REAL
	// rowid is the name of the row id, "" for a table WITHOUT ROWID. It is also "" if columns take all names of the row
	// id; such a table is rejected.
	rowid        string
	withoutRowid bool
	key          []int // WITHOUT ROWID: indexes in columns of the primary key
	// identity is the condition on the columns of the primary key, each with the key's collation, which may be another one than the
	// column's. Parameter n is the value of the nth of key.
	identity string
	repeated bool  // the primary key names a column twice
	notNull  []int // with a row id: indexes in columns of the primary key's columns for which the engine allows NULL
	// primary has the numbers of the primary key's columns. It is empty if the key is the row id (rowidKey), or if there
	// is no key.
	primary  []int32
	rowidKey bool
	sequence bool // has AUTOINCREMENT, as far as the SQL text shows

	// places are the indexes in columns of the primary key's columns, in the order of the key. It is empty if the key is
	// the row id or if there is no key. alias is 1 plus the place among the columns of the column that is the row id, or
	// 0.
	places []int
	alias  int

	insert, remove string // statements of Applier, "" until used
	description    []byte // for the change feed, nil until used
}

// Tables returns the names of the application's tables in order.
func Tables(c *sqlite.Conn) ([]string, error) {
	var names []string
	err := c.Query(`SELECT name FROM sqlite_master WHERE type='table' ORDER BY name`, func(r sqlite.Row) error {
		if name := r.Text(0); !internal(name) && !strings.HasPrefix(name, "sqlite_") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return names, nil
}

// schema is what one connection knows about the application's tables.
type schema struct {
	c       *sqlite.Conn
	tables  map[string]*table // by name; nil: not read yet
	edition uint64            // the schema edition in which the tables were read
}

// load returns the application's tables by name, cached until the next schema change on the connection.
func (s *schema) load() (map[string]*table, error) {
	if s.tables != nil && s.edition == s.c.SchemaEdition() {
		return s.tables, nil
	}
	tables, err := loadTables(s.c)
	s.tables, s.edition = tables, s.c.SchemaEdition()
	return tables, err
}

// find returns an application table by its name, which is compared as SQLite compares names, or nil.
func (s *schema) find(name string) *table {
	for have, t := range s.tables {
		if sqltext.SameName(have, name) {
			return t
		}
	}
	return nil
}

// loadTables reads the application's tables.
func loadTables(c *sqlite.Conn) (map[string]*table, error) {
	tables := map[string]*table{}
	// index_info finds columns under the name of a table only if that table is WITHOUT ROWID. table_list reports that too, but prepares
	// every view.
	err := c.Query(`SELECT name, EXISTS(SELECT 1 FROM pragma_index_info(m.name)), sql FROM sqlite_master m WHERE type='table'`, func(r sqlite.Row) error {
		name := r.Text(0)
		if internal(name) || strings.HasPrefix(name, "sqlite_") {
			return nil
		}
		t := &table{name: name, withoutRowid: r.Int(1) != 0, sequence: strings.Contains(strings.ToUpper(r.Text(2)), "AUTOINCREMENT")}
		tables[name] = t
		return t.loadColumns(c)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	return tables, nil
}

// rowidNames are SQLite's names for the row id; a column of that name takes precedence.
var rowidNames = [...]string{"rowid", "_rowid_", "oid"}

func (t *table) loadColumns(c *sqlite.Conn) error {
	alias, err := t.rowidAlias(c)
	if err != nil {
		return err
	}
	var all []string
	keys := map[int]int{} // place in the primary key -> place in columns
	err = c.Query(`SELECT cid, name, pk, hidden, "notnull", type FROM pragma_table_xinfo(?) ORDER BY cid`, func(r sqlite.Row) error {
		name := r.Text(1)
		all = append(all, sqltext.Fold(name))
		isAlias := t.rowidKey && name == alias
		if isAlias {
			t.alias = len(t.columns) + 1
		}
		hidden, place := r.Int(3), len(t.stored)
		if hidden == plainColumn || hidden == storedColumn {
			t.stored = append(t.stored, QuoteName(name))
		}
		if hidden != plainColumn || isAlias {
			return nil
		}
		if pk := int(r.Int(2)); pk > 0 {
			keys[pk] = len(t.columns)
			if !t.withoutRowid && r.Int(4) == 0 {
				t.notNull = append(t.notNull, len(t.columns))
			}
		}
		t.columns = append(t.columns, name)
		t.index, t.at = append(t.index, int32(r.Int(0))), append(t.at, place)
		if affinityOf(r.Text(5)) == affinityReal {
			t.reals = append(t.reals, int32(r.Int(0)))
		}
		return nil
	}, dbaas.Text(t.name))
	if err != nil {
		return err
	}
	t.order(keys)
	if t.withoutRowid {
		return t.identify(c)
	}
	if t.rowidKey {
		t.rowid = alias
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

// order sets the primary key. keys has the place in columns by the place in the key, from 1 on.
func (t *table) order(keys map[int]int) {
	for n := range len(keys) {
		k, ok := keys[n+1]
		if !ok {
			t.repeated = true // a column that the key names twice has only its first place
			return
		}
		t.primary, t.places = append(t.primary, t.index[k]), append(t.places, k)
		if t.withoutRowid {
			t.key = append(t.key, k)
		}
	}
}

// plainColumn and storedColumn are values of hidden in pragma_table_xinfo.
const plainColumn, storedColumn = 0, 3

// identify sets identity.
func (t *table) identify(c *sqlite.Conn) error {
	var equal []string
	err := c.Query(`SELECT x.name, x.coll FROM pragma_index_list(?) l, pragma_index_xinfo(l.name) x WHERE l.origin='pk' AND x.key=1 ORDER BY x.seqno`, func(r sqlite.Row) error {
		n := slices.IndexFunc(t.key, func(k int) bool { return t.columns[k] == r.Text(0) })
		equal = append(equal, fmt.Sprintf("%s=?%d COLLATE %s", QuoteName(r.Text(0)), n+1, QuoteName(r.Text(1))))
		return nil
	}, dbaas.Text(t.name))
	t.identity = all(equal)
	return err
}

// maxChain is how many conditions are joined to a plain chain, which is as deep as it has conditions. The engine limits the depth.
const maxChain = 100

// all joins conditions with AND, many of them to a balanced tree.
func all(conditions []string) string {
	half := len(conditions) / 2
	if len(conditions) <= maxChain {
		return strings.Join(conditions, " AND ")
	}
	return "(" + all(conditions[:half]) + ") AND (" + all(conditions[half:]) + ")"
}

// rowidAlias returns the name of the column that is the row id itself, which may be empty, and sets rowidKey if there is such a
// column. It is the only column of the primary key, has type INTEGER, and the key has no index.
func (t *table) rowidAlias(c *sqlite.Conn) (name string, err error) {
	if t.withoutRowid {
		return "", nil
	}
	keys, integers, indexes := 0, 0, 0
	err = c.Query(`SELECT name, type FROM pragma_table_xinfo(?) WHERE pk>0`, func(r sqlite.Row) error {
		if keys++; strings.EqualFold(r.Text(1), "INTEGER") {
			name = r.Text(0)
			integers++
		}
		return nil
	}, dbaas.Text(t.name))
	if err == nil && integers > 0 {
		err = c.Query(`SELECT 1 FROM pragma_index_list(?) WHERE origin='pk'`, func(sqlite.Row) error {
			indexes++
			return nil
		}, dbaas.Text(t.name))
	}
	t.rowidKey = keys == 1 && integers == 1 && indexes == 0
	return name, err
}

// appendHeader appends the record that makes t the table of the following records.
func (t *table) appendHeader(b []byte) []byte {
	b = packed.AppendBytes(append(b, rowlog.Table), t.name)
	b = packed.AppendUint(b, uint64(len(t.columns)))
	if t.withoutRowid {
		return append(b, 1)
	}
	return append(b, 0)
}

// where returns the condition that identifies one row, with parameters from number 1 on.
func (t *table) where() string {
	if !t.withoutRowid {
		return QuoteName(t.rowid) + "=?1"
	}
	return t.identity
}

// rows returns a statement that reads the table's rows, with the row id first if there is one.
func (t *table) rows() string {
	columns := strings.Join(t.stored, ",")
	if !t.withoutRowid {
		columns = QuoteName(t.rowid) + "," + columns
	}
	return "SELECT " + columns + " FROM " + QuoteName(t.name)
}

// all returns the statement that reads all of the table's rows in storage order.
func (t *table) all() string {
	if !t.withoutRowid {
		return t.rows() + " ORDER BY 1"
	}
	names := make([]string, len(t.key))
	for n, k := range t.key {
		names[n] = QuoteName(t.columns[k])
	}
	return t.rows() + " ORDER BY " + strings.Join(names, ",")
}

// QuoteName returns name as an SQL identifier.
func QuoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
