package rowlog

import "slices"

// emptied is the rows of a table that was emptied as a whole. There may be millions of them, so they stay in the form in
// which the feed has them, and become changes one at a time.
type emptied struct {
	table *table
	rows  Reader
	count uint64
	// joined are the numbers of the rows that had changed earlier in the commit. Their changes are in net.
	joined []uint64
}

// emptied reads an Empty record and the rows that belong to it.
func (r *renderer) emptied(in *input) bool {
	name := in.rows.Text()
	if in.feed.Byte() != Emptied {
		return false
	}
	without := in.feed.Byte() == 1
	t := describe(&in.feed, name, without)
	if t == nil {
		return false
	}
	e := emptied{table: t, count: in.feed.Uint()}
	e.rows = in.feed
	for n := uint64(0); n < e.count && !in.feed.Bad; n++ {
		c := r.emptiedRow(t, &in.feed)
		if _, again := r.net.find(&c); again {
			c.before = slices.Clone(c.before)
			r.net.add(c)
			e.joined = append(e.joined, n)
		}
	}
	e.rows.Rest = e.rows.Rest[:len(e.rows.Rest)-len(in.feed.Rest)] // only this table's rows
	r.empties = append(r.empties, e)
	return true
}

// emptiedRow reads a row of an emptied table. The next call overwrites the row's values.
func (r *renderer) emptiedRow(t *table, feed *Reader) change {
	id := feed.rowid(t)
	r.row = feed.appendValues(r.row[:0], len(t.columns))
	return change{table: t, kind: deleted, id: id, before: r.row}
}

// sizedAfter is after how many rows the size of the text of all rows is estimated, so that the text grows once.
const sizedAfter = 1000

// deletes renders a delete for each row, unless the row's changes are in net. A row that was inserted again, with the same
// key, becomes an update there.
func (r *renderer) deletes(e *emptied) {
	before, size := len(r.text), len(e.rows.Rest)
	for n := range e.count {
		c := r.emptiedRow(e.table, &e.rows)
		if len(e.joined) > 0 && e.joined[0] == n {
			e.joined = e.joined[1:]
			continue
		}
		if again, ok := r.net.find(&c); ok {
			c.before = slices.Clone(c.before)
			if c.join(again) {
				*again = c
			}
			continue
		}
		r.whole(&c, "delete", "before", c.before)
		if n == sizedAfter {
			// An estimate by the number of rows is far too large if the first rows are the largest; an estimate by bytes
			// is far too large if they are the smallest. The lesser of the two never is.
			text, left := len(r.text)-before, len(e.rows.Rest)
			r.text = slices.Grow(r.text, min(int(e.count-n)*text/int(n), left*text/max(1, size-left))/10*11)
		}
	}
}
