package replication

import (
	"regexp"
	"strconv"
	"strings"

	"rideshare/internal/packed"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
)

var deleteAll = regexp.MustCompile("(?is)^\\s*DELETE\\s+FROM\\s+(?:main\\s*\\.\\s*)?(?:\"([^\"]+)\"|`([^`]+)`|\\[([^\\]]+)\\]|([\\pL_][\\pL\\pN_$]*))\\s*;?\\s*$")

// maxDeleteAll is the longest text that EmptiedTable looks at.
const maxDeleteAll = 8 << 10

// EmptiedTable returns the table of a statement that is a plain DELETE without WHERE, and "" for any other statement.
func EmptiedTable(sql string) string {
	if len(sql) > maxDeleteAll {
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

// Empty deletes all rows of a large table as a whole, and records that: replicas get the name of the table, consumers
// of the change feed its rows. If done is false, nothing has changed: the table does not exist, is small, or deleting a
// row could have a side effect through a trigger or through a foreign key that refers to it.
func (k *Capture) Empty(name string) (rows int64, done bool, err error) {
	c := k.c
	t := k.find(name)
	if t == nil {
		return 0, false, nil
	}
	whole, err := hasRows(c, t, emptyRows)
	if whole && err == nil {
		whole, err = deletableWhole(c, name)
	}
	if err != nil || !whole {
		return 0, false, err
	}
	fed, err := k.feed.emptied(c, t)
	if err != nil {
		return 0, false, err
	}
	err = c.WithoutForeignKeys(func() error {
		c.OnRow(nil) // otherwise the engine would visit each row.
		defer c.OnRow(k.row)
		return c.ExecOnce("DELETE FROM " + QuoteName(t.name))
	})
	if err != nil {
		return 0, false, err
	}
	rows = c.Changes()
	k.buf = packed.AppendBytes(append(k.buf, rowlog.Empty), t.name)
	if len(k.feed.buf) == 0 {
		k.feed.buf = fed // up to 32 MiB, which are not copied
	} else {
		k.feed.buf = append(k.feed.buf, fed...)
	}
	k.feed.check(k.Size())
	k.sums.empty(t.name)
	k.touched.Emptied(t.name)
	return rows, true, nil
}

// deletableWhole reports whether deleting all rows of a table has no side effect.
func deletableWhole(c *sqlite.Conn, name string) (bool, error) {
	triggers, err := hasTrigger(c, name)
	if err != nil || triggers || c.OpenForeignKeys() {
		return false, err
	}
	return unreferenced(c, name)
}

// Droppable reports whether dropping the table on c has the same effect WithoutForeignKeys as with foreign keys on.
func Droppable(c *sqlite.Conn, name string) (bool, error) {
	if c.OpenForeignKeys() {
		return false, nil
	}
	return unreferenced(c, name)
}

func hasRows(c *sqlite.Conn, t *table, n int) (found bool, err error) {
	err = c.QueryOnce("SELECT 1 FROM "+QuoteName(t.name)+" LIMIT 1 OFFSET "+strconv.Itoa(n-1), func(sqlite.Row) error {
		found = true
		return nil
	})
	return found, err
}

func countRows(c *sqlite.Conn, t *table) (n int64, err error) {
	err = c.QueryOnce("SELECT count(*) FROM "+QuoteName(t.name), func(row sqlite.Row) error {
		n = row.Int(0)
		return nil
	})
	return n, err
}
