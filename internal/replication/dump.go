package replication

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// dumpBuffer is the size of a dump's write buffer in bytes.
const dumpBuffer = 64 << 10

// DumpSQL writes the application's tables as SQL text: for each table the statement that creates it
// and its rows, then the counters of AUTOINCREMENT, indexes, triggers and views. If only is not
// nil, it writes only the tables named there, with their counters, indexes and triggers. Each statement of the schema
// ends with its last word: comments and blanks behind that are left out. Apart from those, a full dump, run in a file
// without tables, makes a file with equal Hashes, row ids included.
//
// The caller must have a transaction open on c, or be the only user of the file. If a name in only
// is not a table's, DumpSQL returns CodeInvalid and writes nothing.
func DumpSQL(c *sqlite.Conn, w io.Writer, only []string) error {
	d := &dump{c: c, w: bufio.NewWriterSize(w, dumpBuffer)}
	if err := d.choose(only); err != nil {
		return err
	}
	d.text("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
	for _, o := range d.tables {
		d.text(sqltext.Terminated(o.sql) + "\n")
		if err := d.rows(o.table); err != nil {
			return fmt.Errorf("dump table %s: %w", o.table.name, err)
		}
	}
	if err := d.counters(only != nil); err != nil {
		return fmt.Errorf("dump counters: %w", err)
	}
	if err := d.others(only != nil); err != nil {
		return fmt.Errorf("dump schema: %w", err)
	}
	d.text("COMMIT;\n")
	return d.w.Flush()
}

// CheckTables returns CodeInvalid if a name is not a table's. The message names the first such name.
func CheckTables(c *sqlite.Conn, names []string) error {
	return (&dump{c: c}).choose(names)
}

// dump is one run of DumpSQL. w keeps the first write error until Flush returns it.
type dump struct {
	c      *sqlite.Conn
	w      *bufio.Writer
	tables []dumped
	buf    []byte // the text of the current row
}

// dumped is a table that is written, with the text that creates it.
type dumped struct {
	table *table
	sql   string
}

func (d *dump) text(s string) { _, _ = d.w.WriteString(s) } // Flush returns the error.

// choose fills tables, in the order in which they were created.
func (d *dump) choose(only []string) error {
	s := schema{c: d.c}
	if _, err := s.load(); err != nil {
		return err
	}
	for _, name := range only {
		if s.find(name) == nil {
			return dbaas.Errorf(dbaas.CodeInvalid, "no such table: %s", name)
		}
	}
	return d.c.Query("SELECT name, sql FROM sqlite_master WHERE type='table' ORDER BY rowid", func(r sqlite.Row) error {
		t := s.tables[r.Text(0)]
		wanted := only == nil || slices.ContainsFunc(only, func(name string) bool { return sqltext.SameName(name, r.Text(0)) })
		if t != nil && wanted {
			d.tables = append(d.tables, dumped{t, r.Text(1)})
		}
		return nil
	})
}

// rows writes an INSERT for each row. It includes the row id only where the engine would choose
// another one.
func (d *dump) rows(t *table) error {
	columns, err := writable(d.c, t.name)
	if err != nil {
		return err
	}
	into, list := "INSERT INTO "+QuoteName(t.name), strings.Join(columns, ",")
	id := t.rowid
	if slices.Contains(columns, QuoteName(id)) || id == "" {
		return d.c.QueryOnce("SELECT "+list+" FROM "+QuoteName(t.name)+orderBy(id), func(r sqlite.Row) error {
			return d.row(into, r, 0)
		})
	}
	withID, next := into+"("+QuoteName(id)+","+list+")", int64(1)
	return d.c.QueryOnce("SELECT "+QuoteName(id)+","+list+" FROM "+QuoteName(t.name)+orderBy(id), func(r sqlite.Row) error {
		usual := r.Int(0) == next
		next = r.Int(0) + 1
		if usual {
			return d.row(into, r, 1)
		}
		return d.row(withID, r, 0)
	})
}

func orderBy(id string) string {
	if id == "" {
		return ""
	}
	return " ORDER BY " + QuoteName(id)
}

// writable returns the quoted names of the columns that an INSERT without a list of columns sets.
func writable(c *sqlite.Conn, name string) (columns []string, err error) {
	err = c.Query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden=0 ORDER BY cid", func(r sqlite.Row) error {
		columns = append(columns, QuoteName(r.Text(0)))
		return nil
	}, dbaas.Text(name))
	return columns, err
}

// row writes an INSERT with the values of a row from column first on. It returns the writer's error,
// so that a dump ends when its reader is gone.
func (d *dump) row(into string, r sqlite.Row, first int) error {
	d.buf = append(append(d.buf[:0], into...), " VALUES("...)
	for i := first; i < r.Columns(); i++ {
		if i > first {
			d.buf = append(d.buf, ',')
		}
		d.buf = appendLiteral(d.buf, r.Borrow(i))
	}
	_, err := d.w.Write(append(d.buf, ");\n"...))
	return err
}

// counters writes the rows of sqlite_sequence. If only some tables were chosen, the text replaces only
// the counters of these tables.
func (d *dump) counters(chosen bool) error {
	var names []string
	for _, o := range d.tables {
		if o.table.sequence {
			names = append(names, sqltext.Fold(o.table.name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	if exists, err := d.c.HasCounters(); err != nil || !exists { // AUTOINCREMENT may be a word of a comment.
		return err
	}
	if !chosen {
		d.text("DELETE FROM sqlite_sequence;\n")
	}
	const into = `INSERT INTO "sqlite_sequence"`
	next := int64(1)
	return d.c.QueryOnce("SELECT rowid, name, seq FROM sqlite_sequence ORDER BY rowid", func(r sqlite.Row) error {
		usual := r.Int(0) == next
		next = r.Int(0) + 1
		switch {
		case chosen && !slices.Contains(names, sqltext.Fold(r.Text(1))):
			return nil
		case chosen:
			d.text("DELETE FROM sqlite_sequence WHERE name=" + string(appendLiteral(nil, r.Borrow(1))) + ";\n")
			return d.row(into, r, 1)
		case usual:
			return d.row(into, r, 1)
		}
		return d.row(into+"(rowid,name,seq)", r, 0)
	})
}

// others writes indexes, triggers and views. A trigger on a view comes after the views.
func (d *dump) others(chosen bool) error {
	tables := map[string]bool{}
	for _, o := range d.tables {
		tables[sqltext.Fold(o.table.name)] = true
	}
	return d.c.Query(`SELECT sql, type, lower(tbl_name) FROM sqlite_master WHERE type<>'table' AND sql IS NOT NULL
		ORDER BY type='trigger' AND lower(tbl_name) IN (SELECT lower(name) FROM sqlite_master WHERE type='view'), type, rowid`, func(r sqlite.Row) error {
		if name := r.Text(2); tables[name] || !chosen && !internal(name) {
			d.text(sqltext.Terminated(r.Text(0)) + "\n")
		}
		return nil
	})
}

// appendLiteral appends an SQL literal that gives exactly the same value, bit by bit.
func appendLiteral(b []byte, v dbaas.Value) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return strconv.AppendInt(b, v.Int, 10)
	case dbaas.KindFloat:
		return appendFloat(b, v.Float)
	case dbaas.KindText:
		if strings.IndexByte(v.Text, 0) >= 0 || !utf8.ValidString(v.Text) {
			b = hex.AppendEncode(append(b, "CAST(X'"...), []byte(v.Text))
			return append(b, "' AS TEXT)"...)
		}
		for b = append(b, '\''); ; {
			before, after, quote := strings.Cut(v.Text, "'")
			if b = append(append(b, before...), '\''); !quote {
				return b
			}
			b, v.Text = append(b, '\''), after
		}
	case dbaas.KindBlob:
		return append(hex.AppendEncode(append(b, "X'"...), v.Blob), '\'')
	case dbaas.KindNull:
	}
	return append(b, "NULL"...)
}

// appendFloat appends a literal that the engine reads as the float f. SQL has no word for infinity, so that becomes
// 9e999.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "9e999"...)
	case math.IsInf(f, -1):
		return append(b, "-9e999"...)
	}
	from := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if strings.ContainsAny(string(b[from:]), ".e") {
		return b
	}
	return append(b, ".0"...)
}
