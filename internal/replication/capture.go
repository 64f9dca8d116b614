package replication

import (
	"bytes"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/readtags"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
)

// Capture records the changes made on a connection, so that a replica that applies them ends with the same rows. It
// records changed rows in the order in which the engine changes them, whether a statement, trigger, cascade or conflict
// clause caused the change. A row is identified by its row id, or by its key in a table WITHOUT ROWID. Schema changes
// are recorded as text.
//
// Internal tables are left out. Only the goroutine that uses the connection may use its Capture.
type Capture struct {
	schema

	guard *Guard
	limit int64
	on    bool
	// replaying: changes are not recorded, only added to the sums.
	replaying bool
	changes   []dbaas.Change
	size      int64 // bytes in changes
	buf       []byte
	old       []byte // the row before its change
	new       []byte // the row after an update
	sums      sums
	feed      feed
	touched   readtags.Touched
	table     *table   // the table of the last record in buf
	skip      []string // tables that the current schema change rewrites
	rows      int64
	over      bool     // the limit was exceeded
	err       error    // set if a row could not be recorded
	nulls     []*table // tables that got a row with NULL in the primary key

	known     bool // lastName, last and lastIn are valid: the name last looked up, its table, and the schema edition then
	lastName  string
	last      *table
	lastIn    uint64
	reserved  map[string]bool          // internal names before the first schema change
	sequences map[int64]sqlite.Counter // committed counters of AUTOINCREMENT
	pending   map[int64]sqlite.Counter
	counted   bool // a row was inserted into a table with AUTOINCREMENT: replicas advance the counter too
	// sequenceSize is the bytes of sequences if the batch will record them.
	sequenceSize int64
}

// NewCapture attaches a Capture to c permanently. The statements that it records must be prepared with guard. When a
// batch records more than limit bytes, the Capture calls sqlite.Conn.Stop; the next Begin lifts that.
//
// From then on DELETE without WHERE visits each row, unless Empty is used.
func NewCapture(c *sqlite.Conn, guard *Guard, limit int64) *Capture {
	k := &Capture{schema: schema{c: c}, guard: guard, limit: limit}
	c.OnRow(k.row)
	return k
}

// Begin drops earlier records and starts recording. The caller must have opened a transaction that has changed nothing
// yet.
func (k *Capture) Begin() error {
	k.on, k.changes, k.size, k.sequenceSize, k.buf = true, nil, 0, 0, nil
	k.table, k.skip, k.pending, k.counted, k.over = nil, nil, nil, false, false
	k.sums.begin()
	k.feed.begin()
	k.touched.Reset()
	k.c.Resume()
	if err := k.Next(); err != nil || k.sequences != nil {
		return err
	}
	var err error
	k.sequences, err = k.c.Counters()
	return err
}

// Next must be called before each statement of the batch. It rereads the schema if that has changed.
func (k *Capture) Next() error {
	k.rows, k.err, k.known, k.last, k.nulls = 0, nil, false, nil, nil
	_, err := k.load()
	return err
}

// End stops recording.
func (k *Capture) End() { k.on = false }

// Committed records that the result of Take was committed. The next batch builds on that state.
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

// Err returns the reason if a row could not be recorded since Next, or nil.
func (k *Capture) Err() error { return k.err }

// Size returns how many bytes the batch has recorded.
func (k *Capture) Size() int64 { return k.size + k.sequenceSize + int64(len(k.buf)) }

// Schema records the text of a schema change and calls run, which executes it. Rows of the tables in rewritten are not
// recorded: replicas get their changes by executing the text. Rows of other tables, such as the cascades of DROP TABLE,
// are recorded after the text.
//
// Schema returns run's error. It returns CodeInvalid, with a message for the client, if replicas could not follow the
// new schema, if it uses reserved names, or if it has an index on a protected table that could reject rows, and CodeTooLarge
// if the schema becomes too large. After an error the caller must undo the change.
func (k *Capture) Schema(text string, rewritten []string, run func() error) error {
	if k.reserved == nil {
		var err error
		if k.reserved, err = internalNames(k.c); err != nil {
			return err
		}
	}
	k.flush()
	k.changes = append(k.changes, dbaas.Change{Kind: dbaas.ChangeSchema, Data: []byte(text)})
	k.size += int64(len(text))
	k.countSequences()
	k.skip = rewritten
	k.sums.schema = true
	before, err := k.load()
	size := int64(0)
	if err == nil {
		size, err = schemaSize(k.c)
	}
	if err == nil {
		err = run()
	}
	k.skip = nil
	if err == nil {
		err = k.checkReplicable(before, size)
	}
	if err == nil {
		k.sums.altered(rewritten, before, k.tables)
	}
	return err
}

// Take ends the batch's recording and returns the changes. The last change has the read tags that the batch touches. It
// may also have tags of undone statements.
func (k *Capture) Take() ([]dbaas.Change, error) {
	if err := k.takeSequences(); err != nil {
		return nil, err
	}
	k.flush()
	if k.changes = k.feed.drop(k.changes); len(k.changes) > 0 {
		k.buf = packed.AppendBytes([]byte{readtags.RecordTouched}, k.touched.Append(nil))
		k.flush()
	}
	return k.changes, k.takeSums()
}

func (k *Capture) flush() {
	if len(k.buf) > 0 {
		k.changes = append(k.changes, dbaas.Change{Kind: dbaas.ChangeRows, Data: k.buf})
		k.size += int64(len(k.buf))
	}
	k.changes = k.feed.flush(k.changes)
	k.buf, k.table = nil, nil
}

// row records a change of a row. The engine calls it before it changes the row.
func (k *Capture) row(ch *sqlite.RowChange) {
	if !k.on || k.err != nil {
		return
	}
	t := k.tableOf(ch)
	if t == nil || slices.Contains(k.skip, t.name) {
		return
	}
	k.rows++
	if k.over {
		return
	}
	k.use(t)
	switch ch.Op {
	case sqlite.RowInsert:
		k.insert(t, ch)
	case sqlite.RowDelete:
		k.delete(t, ch)
	case sqlite.RowUpdate:
		k.update(t, ch)
	}
	if k.replaying {
		k.buf, k.table = k.buf[:0], nil
		k.feed.begin()
		return
	}
	k.touch(t, ch)
	if len(t.notNull) > 0 && ch.Op != sqlite.RowDelete {
		k.checkKey(t, ch)
	}
	if t.sequence && ch.Op == sqlite.RowInsert {
		k.counted = true
		k.countSequences()
	}
	k.feed.check(k.Size())
	if k.over = k.Size() > k.limit; k.over {
		k.c.Stop()
	}
}

// tableOf returns the table of a change, or nil for a table that is not recorded.
func (k *Capture) tableOf(ch *sqlite.RowChange) *table {
	name := ch.Table()
	if k.known && k.lastIn == k.edition && string(name) == k.lastName {
		return k.last
	}
	k.known, k.lastIn, k.lastName = true, k.edition, string(name)
	k.last = k.tables[k.lastName]
	if k.last == nil && !internal(k.lastName) && !strings.HasPrefix(k.lastName, "sqlite_") {
		k.err = dbaas.Errorf(dbaas.CodeInternal, "a row of table %s changed, whose columns are not known", k.lastName)
	}
	return k.last
}

// use makes t the table of the following records.
func (k *Capture) use(t *table) {
	if k.table != t {
		k.table = t
		k.buf = t.appendHeader(k.buf)
		k.feed.table(t)
	}
}

func (k *Capture) insert(t *table, ch *sqlite.RowChange) {
	k.buf = append(k.buf, rowlog.Insert)
	start := len(k.buf)
	if !t.withoutRowid {
		k.buf = packed.AppendInt(k.buf, ch.To)
	}
	for _, i := range t.index {
		k.buf = k.after(k.buf, ch, i)
	}
	if k.sums.kept {
		k.sums.add(t.name, 1, rowSum(k.buf[start:]))
	}
}

func (k *Capture) delete(t *table, ch *sqlite.RowChange) {
	k.buf = k.identity(append(k.buf, rowlog.Delete), t, ch)
	k.old = k.old[:0]
	if !t.withoutRowid {
		k.old = packed.AppendInt(k.old, ch.From)
	}
	values := len(k.old)
	for _, i := range t.index {
		k.old = k.before(k.old, t, ch, i)
	}
	k.feed.buf = append(k.feed.buf, k.old[values:]...)
	if k.sums.kept {
		k.sums.add(t.name, -1, -rowSum(k.old))
	}
}

// identity appends the identity that a row has before its change.
func (k *Capture) identity(b []byte, t *table, ch *sqlite.RowChange) []byte {
	if !t.withoutRowid {
		return packed.AppendInt(b, ch.From)
	}
	for _, n := range t.key {
		b = k.before(b, t, ch, t.index[n])
	}
	return b
}

// maxChecked is the longest old value recorded with an update. Old values let a replica detect that its row differs.
const maxChecked = 64

func (k *Capture) update(t *table, ch *sqlite.RowChange) {
	start := len(k.buf)
	k.buf = k.identity(append(k.buf, rowlog.Update), t, ch)
	k.old, k.new = k.old[:0], k.new[:0]
	if !t.withoutRowid {
		k.buf, k.old, k.new = packed.AppendInt(k.buf, ch.To), packed.AppendInt(k.old, ch.From), packed.AppendInt(k.new, ch.To)
	}
	values, keyChanged := len(k.old), len(t.places) == 0 && ch.From != ch.To
	k.feed.row()
	for n, i := range t.index {
		oldAt, newAt := len(k.old), len(k.new)
		k.old = k.before(k.old, t, ch, i)
		k.new = k.after(k.new, ch, i)
		old, value, isKey := k.old[oldAt:], k.new[newAt:], slices.Contains(t.places, n)
		if isKey && !t.withoutRowid {
			k.feed.keyed = append(k.feed.keyed, old...)
		}
		if !bytes.Equal(old, value) {
			keyChanged = keyChanged || isKey
			if len(old) > maxChecked {
				k.feed.omitted = append(k.feed.omitted, old...)
				old = []byte{rowlog.ValueOmitted}
			}
			k.buf = append(append(packed.AppendUint(k.buf, uint64(n+1)), old...), value...)
		}
	}
	if k.buf = append(k.buf, 0); bytes.Equal(k.old, k.new) {
		k.buf = k.buf[:start]
		return
	}
	k.feed.updated(keyChanged, k.old[values:])
	if k.sums.kept {
		k.sums.add(t.name, 0, rowSum(k.new)-rowSum(k.old))
	}
}

// before appends a value of the row before its change. For a row that is older than a column of affinity REAL, the
// engine returns the column's default as the schema has it, perhaps an integer. Readers of the row get a float, so
// before converts it.
func (k *Capture) before(b []byte, t *table, ch *sqlite.RowChange, column int32) []byte {
	v, err := ch.Old(column)
	if v.Kind == dbaas.KindInteger && slices.Contains(t.reals, column) {
		v = dbaas.Float(float64(v.Int))
	}
	return k.value(b, v, err)
}

// after appends a value of the row after its change.
func (k *Capture) after(b []byte, ch *sqlite.RowChange, column int32) []byte {
	v, err := ch.New(column)
	return k.value(b, v, err)
}

func (k *Capture) value(b []byte, v dbaas.Value, err error) []byte {
	if err != nil {
		k.err = err
		return b
	}
	return packed.AppendValue(b, v)
}
