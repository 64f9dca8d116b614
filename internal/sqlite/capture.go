package sqlite

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Capture records the changes made on a connection, so that a replica that applies them ends with the same rows. It
// records row by row, in the order in which the engine changes them, whichever statement, trigger, cascade or conflict
// clause made the change. A row is identified by its row id, or by its key in a table WITHOUT ROWID. Schema changes are
// recorded as text.
//
// Internal tables are left out. Only the goroutine that uses the connection may use its Capture.
type Capture struct {
	c       *Conn
	limit   int64
	on      bool
	changes []dbaas.Change
	size    int64 // bytes in changes
	buf     []byte
	old     []byte // the row before its change
	new     []byte // the row after its change, where it is not in buf
	sums    sums
	table   *table   // the table of the last record in buf
	skip    []string // tables that the current schema change rewrites
	rows    int64
	over    bool  // the limit was exceeded
	err     error // set if a row could not be recorded

	lastName  uintptr // the name last looked up, and its table
	last      *table
	sequences map[int64]sequenceRow // committed rows of sqlite_sequence
	pending   map[int64]sequenceRow
	counted   bool // a row was inserted into a table with AUTOINCREMENT: replicas advance the counter too
}

// NewCapture attaches a Capture to c permanently. A batch that records more than limit bytes is interrupted.
//
// From now on DELETE without WHERE visits each row, unless Empty is used.
func (c *Conn) NewCapture(limit int64) *Capture {
	c.capture = &Capture{c: c, limit: limit}
	c.hook(true)
	return c.capture
}

func (c *Conn) hook(on bool) {
	if on {
		lib.Xsqlite3_preupdate_hook(c.tls, c.db, callback(onPreUpdate), address(c))
	} else {
		lib.Xsqlite3_preupdate_hook(c.tls, c.db, 0, 0)
	}
}

// Begin drops earlier records and starts recording. The caller has opened a transaction in which nothing has changed
// yet.
func (k *Capture) Begin() error {
	k.on, k.changes, k.size, k.buf = true, nil, 0, nil
	k.table, k.skip, k.pending, k.counted, k.over = nil, nil, nil, false, false
	k.sums.begin()
	if err := k.Next(); err != nil || k.sequences != nil {
		return err
	}
	var err error
	k.sequences, err = k.c.readSequences()
	return err
}

// Next must be called before each statement of the batch. It rereads the schema if that has changed.
func (k *Capture) Next() error {
	k.rows, k.err, k.lastName, k.last = 0, nil, 0, nil
	_, err := k.c.loadTables()
	return err
}

// End stops recording.
func (k *Capture) End() { k.on = false }

// Committed marks the result of Take as committed; the next batch is compared with that state.
func (k *Capture) Committed() {
	if k.pending != nil {
		k.sequences = k.pending
	}
	k.sums.committed()
}

// Rows returns how many rows were recorded since Next.
func (k *Capture) Rows() int64 { return k.rows }

// Over reports whether the batch has recorded more than the limit.
func (k *Capture) Over() bool { return k.over }

// Err returns why a row could not be recorded since Next.
func (k *Capture) Err() error { return k.err }

// Size returns how many bytes the batch has recorded.
func (k *Capture) Size() int64 { return k.size + int64(len(k.buf)) }

// Mark is a position in the recorded changes.
type Mark struct {
	parts, buffered int
	delta           map[string]tableSum
	emptied         map[string]bool
}

// Mark returns the current position.
func (k *Capture) Mark() Mark {
	return Mark{parts: len(k.changes), buffered: len(k.buf), delta: maps.Clone(k.sums.delta), emptied: maps.Clone(k.sums.emptied)}
}

// Rewind drops everything recorded after m, because the caller has undone it.
func (k *Capture) Rewind(m Mark) {
	if len(k.changes) > m.parts {
		k.buf = nil
		if m.buffered > 0 {
			k.buf = k.changes[m.parts].Data
		}
		for _, c := range k.changes[m.parts:] {
			k.size -= int64(len(c.Data))
		}
		k.changes = k.changes[:m.parts]
	}
	k.buf, k.table = k.buf[:m.buffered], nil
	k.sums.delta, k.sums.emptied = maps.Clone(m.delta), maps.Clone(m.emptied)
}

// Schema records the text of a schema change and calls run, which executes it. Rows of the tables in rewritten change
// through the text itself and are not recorded. Rows of other tables, such as the cascades of DROP TABLE, are recorded
// after the text.
func (k *Capture) Schema(text string, rewritten []string, run func() error) error {
	k.flush()
	k.changes = append(k.changes, dbaas.Change{Kind: dbaas.ChangeSchema, Data: []byte(text)})
	k.size += int64(len(text))
	k.skip = rewritten
	k.sums.schema, k.sums.again = true, append(k.sums.again, rewritten...)
	err := run()
	k.skip = nil
	k.c.schemaChanged()
	return err
}

// Take ends the batch's recording and returns the changes.
func (k *Capture) Take() ([]dbaas.Change, error) {
	if err := k.takeSequences(); err != nil {
		return nil, err
	}
	k.flush()
	return k.changes, k.takeSums()
}

func (k *Capture) flush() {
	if len(k.buf) > 0 {
		k.changes = append(k.changes, dbaas.Change{Kind: dbaas.ChangeRows, Data: k.buf})
		k.size += int64(len(k.buf))
	}
	k.buf, k.table = nil, nil
}

// onPreUpdate is called by the engine before each change of a row.
func onPreUpdate(_ *libc.TLS, arg, _ uintptr, op int32, _, name uintptr, from, to int64) { //nolint:revive // the engine's signature.
	c := ref[Conn](arg)
	if k := c.capture; k != nil && k.on && k.err == nil {
		k.row(op, name, from, to)
	}
}

func (k *Capture) row(op int32, name uintptr, from, to int64) {
	t := k.find(name)
	if t == nil || slices.Contains(k.skip, t.name) {
		return
	}
	k.rows++
	if k.over {
		return
	}
	k.use(t)
	switch op {
	case lib.SQLITE_INSERT:
		k.insert(t, to)
	case lib.SQLITE_DELETE:
		k.delete(t, from)
	default:
		k.update(t, from, to)
	}
	k.counted = k.counted || t.sequence && op == lib.SQLITE_INSERT
	k.over = k.Size() > k.limit
}

// find returns a table by the address of the engine's name for it, or nil for a table that is not recorded.
func (k *Capture) find(name uintptr) *table {
	if name == k.lastName {
		return k.last
	}
	text := libc.GoString(name)
	k.lastName, k.last = name, k.c.tables[text]
	if k.last == nil && !Internal(text) && !strings.HasPrefix(text, "sqlite_") {
		k.err = dbaas.Errorf(dbaas.CodeInternal, "a row of table %s changed, whose columns are not known", text)
	}
	return k.last
}

// use makes t the table of the following records.
func (k *Capture) use(t *table) {
	if k.table != t {
		k.table = t
		k.buf = t.appendHeader(k.buf)
	}
}

func (k *Capture) insert(t *table, rowid int64) {
	k.buf = append(k.buf, recordInsert)
	start := len(k.buf)
	if !t.withoutRowid {
		k.buf = appendInt(k.buf, rowid)
	}
	for _, i := range t.index {
		k.buf = k.value(k.buf, lib.Xsqlite3_preupdate_new, i)
	}
	if k.sums.kept {
		k.sums.add(t.name, 1, rowSum(k.buf[start:]))
	}
}

func (k *Capture) delete(t *table, rowid int64) {
	k.buf = k.identity(append(k.buf, recordDelete), t, rowid)
	if !k.sums.kept {
		return
	}
	k.old = k.old[:0]
	if !t.withoutRowid {
		k.old = appendInt(k.old, rowid)
	}
	for _, i := range t.index {
		k.old = k.value(k.old, lib.Xsqlite3_preupdate_old, i)
	}
	k.sums.add(t.name, -1, -rowSum(k.old))
}

// identity appends the identity that a row has before its change.
func (k *Capture) identity(b []byte, t *table, rowid int64) []byte {
	if !t.withoutRowid {
		return appendInt(b, rowid)
	}
	for _, n := range t.key {
		b = k.value(b, lib.Xsqlite3_preupdate_old, t.index[n])
	}
	return b
}

// maxChecked is the longest old value recorded with an update. Old values let a replica detect that its row differs.
const maxChecked = 64

func (k *Capture) update(t *table, from, to int64) {
	start := len(k.buf)
	k.buf = k.identity(append(k.buf, recordUpdate), t, from)
	k.old, k.new = k.old[:0], k.new[:0]
	if !t.withoutRowid {
		k.buf, k.old, k.new = appendInt(k.buf, to), appendInt(k.old, from), appendInt(k.new, to)
	}
	for n, i := range t.index {
		oldAt, newAt := len(k.old), len(k.new)
		k.old = k.value(k.old, lib.Xsqlite3_preupdate_old, i)
		k.new = k.value(k.new, lib.Xsqlite3_preupdate_new, i)
		if old, value := k.old[oldAt:], k.new[newAt:]; !bytes.Equal(old, value) {
			if len(old) > maxChecked {
				old = []byte{valueOmitted}
			}
			k.buf = append(append(appendUint(k.buf, uint64(n+1)), old...), value...)
		}
	}
	if k.buf = append(k.buf, 0); bytes.Equal(k.old, k.new) {
		k.buf = k.buf[:start]
	} else if k.sums.kept {
		k.sums.add(t.name, 0, rowSum(k.new)-rowSum(k.old))
	}
}

type preUpdateValue func(tls *libc.TLS, db uintptr, index int32, value uintptr) int32

// value appends one value of the changing row.
func (k *Capture) value(b []byte, get preUpdateValue, index int32) []byte {
	c := k.c
	if rc := get(c.tls, c.db, index, c.out); rc != lib.SQLITE_OK {
		k.err = &dbaas.Error{Code: codeOf(rc), Message: "a row could not be recorded"}
		return b
	}
	v := *ref[uintptr](c.out)
	switch lib.Xsqlite3_value_type(c.tls, v) {
	case lib.SQLITE_INTEGER:
		return appendInt(append(b, valueInteger), lib.Xsqlite3_value_int64(c.tls, v))
	case lib.SQLITE_FLOAT:
		return appendFloatBits(append(b, valueFloat), lib.Xsqlite3_value_double(c.tls, v))
	case lib.SQLITE_TEXT:
		p := lib.Xsqlite3_value_text(c.tls, v)
		return appendBytes(append(b, valueText), view(p, int(lib.Xsqlite3_value_bytes(c.tls, v))))
	case lib.SQLITE_BLOB:
		p := lib.Xsqlite3_value_blob(c.tls, v)
		return appendBytes(append(b, valueBlob), view(p, int(lib.Xsqlite3_value_bytes(c.tls, v))))
	default:
		return append(b, valueNull)
	}
}
