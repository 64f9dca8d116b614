package replication

import (
	"errors"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
)

// feed records the data that consumers of the change feed need besides the rows that replicas get: names of columns,
// keys, and old values. It becomes a dbaas.ChangeFeed behind each dbaas.ChangeRows. rowlog describes the form.
type feed struct {
	buf       []byte
	described []*table // tables whose descriptions are in buf
	size      int64    // bytes in completed ChangeFeeds
	over      bool     // the entry has no feed: it would be too large
	keyed     []byte   // the key of the row being updated
	omitted   []byte   // the old values that the row's record omits
}

// maxFeed bounds the feed of an entry in bytes, and maxBoth the feed and the rows together: the frame with both must
// stay below wire.MaxBytes.
const (
	maxFeed = 32 << 20
	maxBoth = 92 << 20
)

func (f *feed) begin() { f.buf, f.described, f.size, f.over = nil, nil, 0, false }

// table adds the table of the following records. The table's description is added only the first time.
func (f *feed) table(t *table) {
	if slices.Contains(f.described, t) {
		f.buf = append(f.buf, rowlog.Known)
		return
	}
	f.described = append(f.described, t)
	f.buf = append(f.buf, t.described()...)
}

// described returns the table's description. The result is cached, since most commits need it.
func (t *table) described() []byte {
	if t.description != nil {
		return t.description
	}
	b := packed.AppendBytes([]byte{rowlog.Described}, t.rowid)
	b = packed.AppendUint(b, uint64(t.alias))
	b = packed.AppendUint(b, uint64(len(t.columns)))
	for _, name := range t.columns {
		b = packed.AppendBytes(b, name)
	}
	b = packed.AppendUint(b, uint64(len(t.places)))
	for _, place := range t.places {
		b = packed.AppendUint(b, uint64(place))
	}
	t.description = b
	return b
}

// emptied returns the feed's record of a table that is about to be emptied as a whole: all its rows. If there are too
// many rows, the record is incomplete and larger than maxFeed, so that check drops the feed.
func (f *feed) emptied(c *sqlite.Conn, t *table) ([]byte, error) {
	if f.over {
		return nil, nil
	}
	count, err := countRows(c, t)
	if err != nil {
		return nil, err
	}
	var names []string
	b, first := []byte{rowlog.Emptied, 1}, 0
	if !t.withoutRowid {
		b[1], names, first = 0, append(names, QuoteName(t.rowid)), 1
	}
	for _, name := range t.columns {
		names = append(names, QuoteName(name))
	}
	b = packed.AppendUint(append(b, t.described()[1:]...), uint64(count))
	before, n := len(b), int64(0)
	err = c.QueryOnce("SELECT "+strings.Join(names, ", ")+" FROM "+QuoteName(t.name), func(row sqlite.Row) error {
		if !t.withoutRowid {
			b = packed.AppendInt(b, row.Int(0))
		}
		for i := first; i < len(names); i++ {
			b = packed.AppendValue(b, row.Borrow(i))
		}
		size := int64(len(b) - before)
		if n++; n == sizedAfter { // so that b rarely grows again
			b = slices.Grow(b, int(min(maxFeed, (count-n)*size/n*11/10)))
		}
		if size > maxFeed {
			return errTooManyRows
		}
		return nil
	})
	if err != nil && !errors.Is(err, errTooManyRows) {
		return nil, err
	}
	return b, nil
}

// sizedAfter is after how many rows the size of all rows is estimated.
const sizedAfter = emptyRows

// errTooManyRows ends a query whose rows exceed the limit of a feed.
var errTooManyRows = errors.New("too many rows for the feed")

// row begins an update.
func (f *feed) row() { f.keyed, f.omitted = f.keyed[:0], f.omitted[:0] }

// updated adds the update begun by row. all has the old values of all columns; they are recorded if the key changed.
func (f *feed) updated(keyChanged bool, all []byte) {
	if keyChanged {
		f.buf = append(f.buf, all...)
		return
	}
	f.buf = append(append(f.buf, f.keyed...), f.omitted...)
}

// check gives up the entry's feed if it is too large, alone or together with recorded bytes of rows.
func (f *feed) check(recorded int64) {
	if n := f.size + int64(len(f.buf)); n > maxFeed || n+recorded > maxBoth {
		f.over = true
	}
	if f.over {
		f.buf = nil
	}
}

// flush appends the feed that belongs to the rows just appended to changes.
func (f *feed) flush(changes []dbaas.Change) []dbaas.Change {
	if len(f.buf) > 0 && !f.over {
		changes = append(changes, dbaas.Change{Kind: dbaas.ChangeFeed, Data: f.buf})
		f.size += int64(len(f.buf))
	}
	f.buf, f.described = nil, nil
	return changes
}

// rewind returns the feed to the state in which changes had parts elements. buf and over are its fields of that moment.
func (f *feed) rewind(changes []dbaas.Change, parts int, buf []byte, over bool) {
	for _, c := range changes[parts:] {
		if c.Kind == dbaas.ChangeFeed {
			f.size -= int64(len(c.Data))
		}
	}
	f.buf, f.over, f.described = buf, over, nil
}

// drop removes the ChangeFeeds from changes if the entry's feed was given up.
func (f *feed) drop(changes []dbaas.Change) []dbaas.Change {
	if !f.over {
		return changes
	}
	return slices.DeleteFunc(changes, func(c dbaas.Change) bool { return c.Kind == dbaas.ChangeFeed })
}
