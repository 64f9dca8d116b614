package sqlite

import (
	"regexp"
	"strconv"
	"strings"

	lib "modernc.org/sqlite/lib"
)

var deleteAll = regexp.MustCompile("(?is)^\\s*DELETE\\s+FROM\\s+(?:main\\s*\\.\\s*)?(?:\"([^\"]+)\"|`([^`]+)`|\\[([^\\]]+)\\]|([\\pL_][\\pL\\pN_$]*))\\s*;?\\s*$")

// EmptiedTable returns the table of a statement that is a plain DELETE without WHERE, and "" for any other statement.
func EmptiedTable(sql string) string {
	if len(sql) > maxKeptSQL {
		return ""
	}
	found := deleteAll.FindStringSubmatch(sql)
	if found == nil {
		return ""
	}
	return strings.Join(found[1:], "")
}

// emptyRows is the number of rows from which emptying a table as a whole pays off.
const emptyRows = 1000

// Empty deletes all rows of a large table without visiting them, and records that. done is false, and nothing has
// changed, if the table is small or if deleting a row could have another effect through a trigger or through a foreign
// key of a row that refers to it.
func (k *Capture) Empty(name string) (rows int64, done bool, err error) {
	c := k.c
	t := c.find(name)
	if t == nil {
		return 0, false, nil
	}
	whole, err := c.hasRows(t, emptyRows)
	if whole && err == nil {
		whole, err = c.deletableWhole(name)
	}
	if err != nil || !whole {
		return 0, false, err
	}
	err = c.WithoutForeignKeys(func() error {
		c.hook(false) // with the hook the engine would visit each row.
		defer c.hook(true)
		return c.once("DELETE FROM " + QuoteName(t.name))
	})
	if err != nil {
		return 0, false, err
	}
	rows = lib.Xsqlite3_changes64(c.tls, c.db)
	k.buf = appendBytes(append(k.buf, recordEmpty), t.name)
	k.sums.empty(t.name)
	return rows, true, nil
}

// deletableWhole reports whether deleting all rows of a table has no side effect.
func (c *Conn) deletableWhole(name string) (bool, error) {
	triggers, err := c.hasTrigger(name)
	if err != nil || triggers || c.OpenForeignKeys() {
		return false, err
	}
	return c.unreferenced(name)
}

// Droppable reports whether dropping the table WithoutForeignKeys has the same effect as dropping it with them.
func (c *Conn) Droppable(name string) (bool, error) {
	if c.OpenForeignKeys() {
		return false, nil
	}
	return c.unreferenced(name)
}

// WithoutForeignKeys runs fn with foreign keys off, also inside a transaction.
func (c *Conn) WithoutForeignKeys(fn func() error) error {
	if !c.foreignKeys {
		return fn()
	}
	if err := c.setFlag(lib.SQLITE_DBCONFIG_ENABLE_FKEY, false); err != nil {
		return err
	}
	err := fn()
	if again := c.setFlag(lib.SQLITE_DBCONFIG_ENABLE_FKEY, true); again != nil {
		return again
	}
	return err
}

// find returns an application table by its name, ignoring case, or nil.
func (c *Conn) find(name string) *table {
	for have, t := range c.tables {
		if strings.EqualFold(have, name) {
			return t
		}
	}
	return nil
}

func (c *Conn) hasRows(t *table, n int) (found bool, err error) {
	err = c.queryOnce("SELECT 1 FROM "+QuoteName(t.name)+" LIMIT 1 OFFSET "+strconv.Itoa(n-1), func(Row) error {
		found = true
		return nil
	})
	return found, err
}
