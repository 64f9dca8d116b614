package rowlog

import (
	"bytes"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// kind says what happened to a row in a commit.
type kind byte

const (
	unchanged kind = iota
	inserted
	updated
	deleted
)

// change is the net change of one row. before and after have a value for each column. In an update, only the key's
// values of after are set.
type change struct {
	table  *table
	kind   kind
	id     int64 // the row id that the feed shows
	before []dbaas.Value
	after  []dbaas.Value
	cols   []changed // an update's changed columns, sorted by place
}

// net collects the changes of a commit between two schema changes. It keeps only the net change of each row:
// intermediate states are not sent.
type net struct {
	changes []change
	last    map[string]int // by the row's key: the index of its change in changes
	key     []byte
}

// reset forgets all changes.
func (n *net) reset() {
	n.changes = n.changes[:0]
	clear(n.last)
}

// place sets n.key to the key of a row: the table, and the values of the primary key or the row id. The key is unique,
// since Capture allows no NULL in a primary key.
func (n *net) place(t *table, id int64, row []dbaas.Value) {
	n.key = packed.AppendBytes(n.key[:0], t.lower)
	for _, place := range t.key {
		n.key = packed.AppendValue(n.key, row[place])
	}
	if len(t.key) == 0 {
		n.key = packed.AppendInt(n.key, id)
	}
}

// find returns the earlier change of the row of c, and sets n.key to the row's key.
func (n *net) find(c *change) (earlier *change, found bool) {
	row := c.after
	if c.kind == deleted {
		row = c.before
	}
	n.place(c.table, c.id, row)
	i, found := n.last[string(n.key)]
	if !found {
		return nil, false
	}
	return &n.changes[i], true
}

// add adds the next change, and joins it with an earlier one of the same row.
func (n *net) add(c change) {
	earlier, again := n.find(&c)
	if again && earlier.join(&c) {
		if earlier.kind == unchanged {
			delete(n.last, string(n.key))
		}
		return
	}
	if n.last == nil {
		n.last = map[string]int{}
	}
	n.last[string(n.key)] = len(n.changes)
	n.changes = append(n.changes, c)
}

// join merges the row's next change into c. It returns false if next cannot follow c.
func (c *change) join(next *change) bool {
	switch {
	case c.kind == inserted && next.kind == updated:
		for i := range next.cols {
			c.after[next.cols[i].place] = next.cols[i].new
		}
	case c.kind == inserted && next.kind == deleted:
		c.kind = unchanged
	case c.kind == updated && next.kind == updated:
		c.update(next.cols)
	case c.kind == updated && next.kind == deleted:
		for i := range c.cols {
			next.before[c.cols[i].place] = c.cols[i].old
		}
		*c = *next
	case c.kind == deleted && next.kind == inserted:
		before := c.before
		*c = change{table: c.table, kind: updated, id: next.id, after: next.after}
		for place := range before {
			c.cols = append(c.cols, changed{place: place, old: before[place], new: next.after[place]})
		}
		c.trim()
	default:
		return false
	}
	return true
}

// update merges the columns of a later update.
func (c *change) update(cols []changed) {
	for _, col := range cols {
		i := slices.IndexFunc(c.cols, func(old changed) bool { return old.place == col.place })
		if i < 0 {
			c.cols = append(c.cols, col)
		} else {
			c.cols[i].new = col.new
		}
	}
	slices.SortFunc(c.cols, func(a, b changed) int { return a.place - b.place })
	c.trim()
}

// trim drops the columns that have their old value again. A change without columns becomes unchanged.
func (c *change) trim() {
	c.cols = slices.DeleteFunc(c.cols, func(col changed) bool {
		return bytes.Equal(packed.AppendValue(nil, col.old), packed.AppendValue(nil, col.new))
	})
	if len(c.cols) == 0 {
		c.kind = unchanged
	}
}

// flush renders and forgets the collected changes.
func (r *renderer) flush() {
	for i := range r.empties {
		r.deletes(&r.empties[i])
	}
	r.empties = nil
	for i := range r.net.changes {
		switch c := &r.net.changes[i]; c.kind {
		case inserted:
			r.whole(c, "insert", "after", c.after)
		case deleted:
			r.whole(c, "delete", "before", c.before)
		case updated:
			r.changed(c)
		case unchanged:
		}
	}
	r.net.reset()
}
