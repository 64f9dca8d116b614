package rowlog

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/sqljson"
	"rideshare/internal/sqltext"
)

// Event is an entry of the log in the form that the change feed sends: one JSON object. It is safe for concurrent use.
type Event struct {
	Seq   dbaas.Seq
	text  []byte // the JSON object with all changes
	start int    // where the changes begin in text
	parts []part
}

// part is a run of successive changes of one table.
type part struct {
	table string // in lower case; "" for schema changes, which every consumer gets
	end   int    // where the part ends in Event.text; a comma or the end of the changes follows
}

// timeForm is RFC 3339 in milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z"

// NewEvent renders an entry that was read together with its ChangeFeeds. The error is CodeGone if the entry lacks data
// that the feed needs: an older version committed it, or its old values were too large to be recorded.
func NewEvent(e *dbaas.Entry) (*Event, error) {
	b := make([]byte, 0, 256+2*e.Size())
	b = fmt.Appendf(b, `{"cluster":"%s","seq":%d,"epoch":%d,"time":"%s","changes":[`, e.Cluster, e.Seq, e.Epoch, e.At.UTC().Format(timeForm))
	r := renderer{event: &Event{Seq: e.Seq, start: len(b)}, text: b}
	for i := range e.Changes {
		switch c := &e.Changes[i]; c.Kind {
		case dbaas.ChangeSchema:
			r.flush()
			r.begin("")
			r.text = append(sqljson.AppendText(append(r.text, `{"op":"schema","sql":`...), string(c.Data)), '}')
			r.end()
		case dbaas.ChangeRows:
			var feed []byte
			if i+1 < len(e.Changes) && e.Changes[i+1].Kind == dbaas.ChangeFeed {
				feed = e.Changes[i+1].Data
			}
			if !r.rows(c.Data, feed) {
				return nil, errNoFeed(e.Seq)
			}
		case dbaas.ChangeSet:
			return nil, errNoFeed(e.Seq)
		case dbaas.ChangeFeed: // was read with the rows before it
		}
	}
	r.flush()
	r.event.text = append(r.text, eventEnd...)
	return r.event, nil
}

func errNoFeed(seq dbaas.Seq) error {
	return dbaas.Errorf(dbaas.CodeGone, "the changes of commit %d are not in the log in the form of the feed: an older version wrote it, or the rows that it replaced are too large", seq)
}

// Size returns the approximate size of the event in memory, in bytes.
func (e *Event) Size() int { return len(e.text) + 32*len(e.parts) + 128 }

// Matches reports whether the event has a change of one of the tables, whose names are in lower case, or a schema change.
// nil means all tables.
func (e *Event) Matches(tables []string) bool {
	return tables == nil || slices.ContainsFunc(e.parts, func(p part) bool { return p.in(tables) })
}

// Pieces returns the event with only the changes of the given tables, in pieces that share the event's memory. Schema
// changes are always included.
func (e *Event) Pieces(tables []string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if tables == nil {
			yield(e.text)
			return
		}
		if !yield(e.text[:e.start]) {
			return
		}
		first, from := true, e.start
		for _, p := range e.parts {
			if p.in(tables) {
				if !first && !yield([]byte{','}) || !yield(e.text[from:p.end]) {
					return
				}
				first = false
			}
			from = p.end + 1
		}
		yield(e.text[len(e.text)-len(eventEnd):])
	}
}

// in reports whether a consumer of the given tables gets the part.
func (p part) in(tables []string) bool { return p.table == "" || slices.Contains(tables, p.table) }

// eventEnd is the end of an event's text, after the changes.
const eventEnd = "]}"

// renderer appends changes to an event.
type renderer struct {
	event  *Event
	text   []byte
	name   string // the table of the change being rendered, in lower case
	tables map[string]*table
	table  *table // the table of the next records
	net    net
	// empties are the tables that were emptied since the last schema change.
	empties []emptied
	row     []dbaas.Value // of an emptied table
}

// table is a table's description in the feed. A member is a JSON name with its colon.
type table struct {
	name         string // as JSON
	lower        string
	withoutRowid bool
	rowid        []byte   // the member of the row id, such as `"rowid":`
	alias        int      // 1 plus the place of the column that is the row id, or 0
	columns      [][]byte // the members of the columns
	key          []int    // places of the primary key; none if the row id is the key
}

// begin starts rendering a change of a table.
func (r *renderer) begin(table string) {
	if len(r.text) > r.event.start {
		r.text = append(r.text, ',')
	}
	r.name = table
}

// end ends the rendering of a change.
func (r *renderer) end() {
	if n := len(r.event.parts); n > 0 && r.event.parts[n-1].table == r.name {
		r.event.parts[n-1].end = len(r.text)
		return
	}
	r.event.parts = append(r.event.parts, part{table: r.name, end: len(r.text)})
}

// rows reads the records of a ChangeRows with the feed that belongs to them. It returns false if either is malformed,
// or if the two do not belong to the same changes.
func (r *renderer) rows(records, feed []byte) bool {
	r.tables, r.table = map[string]*table{}, nil
	in := input{rows: NewReader(records), feed: NewReader(feed)}
	for len(in.rows.Rest) > 0 {
		if !r.record(&in) || in.rows.Bad || in.feed.Bad {
			return false
		}
	}
	return len(in.feed.Rest) == 0
}

// input has the records of a ChangeRows and the ChangeFeed that belongs to them.
type input struct{ rows, feed Reader }

// record reads one record. It returns false for a record that is not valid in this place.
func (r *renderer) record(in *input) bool {
	op := in.rows.Byte()
	switch op {
	case readtags.RecordTouched:
		in.rows.Bytes()
		return true
	case Sequence:
		for n := in.rows.Uint(); n > 0 && !in.rows.Bad; n-- {
			in.rows.Int()
			in.rows.Value()
			in.rows.Value()
		}
		return true
	case Empty:
		return r.emptied(in)
	case Table:
		return r.use(in)
	}
	if r.table == nil {
		return false
	}
	switch op {
	case Insert:
		id := in.rows.rowid(r.table)
		r.net.add(change{table: r.table, kind: inserted, id: id, after: in.rows.values(len(r.table.columns))})
	case Delete:
		id := in.rows.identity(r.table)
		r.net.add(change{table: r.table, kind: deleted, id: id, before: in.feed.values(len(r.table.columns))})
	case Update:
		return r.update(in)
	default:
		return false
	}
	return true
}

// use reads a Table record: its table is that of the next records.
func (r *renderer) use(in *input) bool {
	name, columns, without := in.rows.Text(), in.rows.Uint(), in.rows.Byte() == 1
	switch in.feed.Byte() {
	case Known:
		r.table = r.tables[name]
	case Described:
		r.table = describe(&in.feed, name, without)
		r.tables[name] = r.table
	default:
		return false
	}
	return r.table != nil && uint64(len(r.table.columns)) == columns && r.table.withoutRowid == without
}

// describe reads the description of a table. It returns nil if the description is malformed.
func describe(feed *Reader, name string, without bool) *table {
	member := func(name string) []byte { return append(sqljson.AppendText(nil, name), ':') }
	t := &table{name: string(sqljson.AppendText(nil, name)), lower: sqltext.Fold(name), withoutRowid: without}
	t.rowid = member(feed.Text())
	t.alias = int(feed.Uint())
	for n := feed.Uint(); n > 0 && !feed.Bad; n-- {
		t.columns = append(t.columns, member(feed.Text()))
	}
	for n := feed.Uint(); n > 0 && !feed.Bad; n-- {
		place := feed.Uint()
		if place >= uint64(len(t.columns)) {
			return nil
		}
		t.key = append(t.key, int(place))
	}
	if feed.Bad || t.alias > len(t.columns)+1 || without && len(t.key) == 0 {
		return nil
	}
	return t
}

// rowid reads the identity of an inserted row: nothing in a table WITHOUT ROWID.
func (r *Reader) rowid(t *table) (id int64) {
	if !t.withoutRowid {
		id = r.Int()
	}
	return id
}

// identity reads the identity of a row that existed before. It returns the row id. A key is skipped, since the feed has
// it too.
func (r *Reader) identity(t *table) (id int64) {
	if !t.withoutRowid {
		return r.Int()
	}
	r.values(len(t.key))
	return 0
}

// values reads n values.
func (r *Reader) values(n int) []dbaas.Value {
	return r.appendValues(make([]dbaas.Value, 0, n), n)
}

func (r *Reader) appendValues(values []dbaas.Value, n int) []dbaas.Value {
	for range n {
		v, _ := r.Value()
		values = append(values, v)
	}
	return values
}

// whole renders a change that shows the whole row.
func (r *renderer) whole(c *change, op, member string, values []dbaas.Value) {
	r.open(c.table, op)
	r.text = c.table.appendKey(r.text, c.id, values)
	r.text = append(append(append(r.text, `,"`...), member...), `":{`...)
	r.text = append(c.table.appendRow(r.text, c.id, values), "}}"...)
	r.end()
}

// open renders the start of a change, up to the value of "key".
func (r *renderer) open(t *table, op string) {
	r.begin(t.lower)
	r.text = append(append(append(r.text, `{"op":"`...), op...), `","table":`...)
	r.text = append(append(r.text, t.name...), `,"key":`...)
}

// appendKey appends the key of a row.
func (t *table) appendKey(b []byte, id int64, values []dbaas.Value) []byte {
	b = append(b, '{')
	if len(t.key) == 0 {
		b = append(strconv.AppendInt(append(b, t.rowid...), id, 10), ',')
	}
	for _, place := range t.key {
		b = append(AppendJSON(append(b, t.columns[place]...), &values[place]), ',')
	}
	b[len(b)-1] = '}'
	return b
}

// appendRow appends all columns of a row as members with their values.
func (t *table) appendRow(b []byte, id int64, values []dbaas.Value) []byte {
	start := len(b)
	for i := 0; i <= len(values); i++ {
		if t.alias == i+1 {
			b = append(strconv.AppendInt(append(b, t.rowid...), id, 10), ',')
		}
		if i < len(values) {
			b = append(AppendJSON(append(b, t.columns[i]...), &values[i]), ',')
		}
	}
	return b[:max(start, len(b)-1)]
}
