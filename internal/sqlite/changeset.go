package sqlite

import (
	"bytes"
	"errors"

	lib "modernc.org/sqlite/lib"
)

// shape is what a changeset and a table must agree on.
type shape struct {
	columns int
	key     string // one byte a column, 1 for columns of the primary key, else 0
}

var errChangeset = errors.New("malformed changeset")

// shapesOf returns the tables of a changeset. The engine itself skips a table that
// it does not have, or that has another shape, without an error; so that a replica
// can check, the changeset is read here.
// Source: the comment on the record format in SQLite's sqlite3session.c.
func shapesOf(changeset []byte) (map[string]shape, error) {
	w := walker{b: changeset}
	shapes := map[string]shape{}
	columns := 0
	for len(w.b) > 0 && !w.bad {
		switch op := w.byte(); op {
		case 'T':
			columns = int(w.varint()) //nolint:gosec // checked by take.
			key := append([]byte(nil), w.take(columns)...)
			for i := range key {
				key[i] = min(key[i], 1)
			}
			shapes[w.name()] = shape{columns: columns, key: string(key)}
		case lib.SQLITE_INSERT, lib.SQLITE_DELETE:
			w.byte() // whether it came from a trigger or cascade
			w.record(columns)
		case lib.SQLITE_UPDATE:
			w.byte()
			w.record(columns)
			w.record(columns)
		default:
			w.bad = true
		}
	}
	if w.bad {
		return nil, errChangeset
	}
	return shapes, nil
}

// walker reads a changeset without keeping it.
type walker struct {
	b   []byte
	bad bool
}

func (w *walker) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return nil
	}
	v := w.b[:n]
	w.b = w.b[n:]
	return v
}

func (w *walker) byte() byte {
	v := w.take(1)
	if v == nil {
		return 0
	}
	return v[0]
}

// varint reads SQLite's own varint: big endian, 7 bits a byte, the ninth has 8.
func (w *walker) varint() uint64 {
	var v uint64
	for i := range 9 {
		c := w.byte()
		if i == 8 {
			return v<<8 | uint64(c)
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v
		}
	}
	return v
}

func (w *walker) name() string {
	end := bytes.IndexByte(w.b, 0)
	name := string(w.take(end))
	w.take(1)
	return name
}

func (w *walker) record(columns int) {
	for range columns {
		switch w.byte() {
		case 0, lib.SQLITE_NULL: // 0: not part of the change
		case lib.SQLITE_INTEGER, lib.SQLITE_FLOAT:
			w.take(8)
		case lib.SQLITE_TEXT, lib.SQLITE_BLOB:
			n := w.varint()
			if n > uint64(len(w.b)) {
				w.bad, w.b = true, nil
				return
			}
			w.take(int(n)) //nolint:gosec // bounded on the line above.
		default:
			w.bad, w.b = true, nil
			return
		}
	}
}
