package rowlog

import (
	"slices"

	"rideshare/internal/dbaas"
)

// changed is a column that an update changed.
type changed struct {
	place    int
	old, new dbaas.Value
	known    bool // old is in the record; otherwise it is in the feed
}

// update reads an update and adds its changed columns. If the row's key changed, it adds a delete and an insert
// instead.
func (r *renderer) update(in *input) bool {
	t := r.table
	id, identity := int64(0), []dbaas.Value(nil)
	if t.withoutRowid {
		identity = in.rows.values(len(t.key))
	} else {
		id = in.rows.Int()
	}
	now := in.rows.rowid(t)
	columns, ok := in.rows.changedColumns(t)
	if !ok {
		return false
	}
	if t.keyChanged(id != now, columns) {
		row := in.feed.values(len(t.columns))
		r.net.add(change{table: t, kind: deleted, id: id, before: slices.Clone(row)})
		for i := range columns {
			row[columns[i].place] = columns[i].new
		}
		r.net.add(change{table: t, kind: inserted, id: now, after: row})
		return true
	}
	row := make([]dbaas.Value, len(t.columns)) // only the key's values are set
	for i, place := range t.key {
		if t.withoutRowid {
			row[place] = identity[i]
		}
	}
	in.feed.missing(t, row, columns)
	if len(columns) > 0 { // otherwise only the row id changed, which is not the key
		r.net.add(change{table: t, kind: updated, id: now, after: row, cols: columns})
	}
	return true
}

// changedColumns reads the columns of an update.
func (r *Reader) changedColumns(t *table) (columns []changed, ok bool) {
	for place := r.Uint(); place != 0; place = r.Uint() {
		if place > uint64(len(t.columns)) {
			return nil, false
		}
		c := changed{place: int(place - 1)}
		c.old, c.known = r.Value()
		c.new, _ = r.Value()
		columns = append(columns, c)
	}
	return columns, !r.Bad
}

// keyChanged reports whether an update changed the key of its row.
func (t *table) keyChanged(rowid bool, columns []changed) bool {
	if len(t.key) == 0 {
		return rowid
	}
	for i := range columns {
		if slices.Contains(t.key, columns[i].place) {
			return true
		}
	}
	return false
}

// missing reads from the feed the values that the record of an update lacks: the key and omitted old values.
func (r *Reader) missing(t *table, row []dbaas.Value, columns []changed) {
	if !t.withoutRowid {
		for place := range t.columns { // the feed has the key in the order of the columns
			if slices.Contains(t.key, place) {
				row[place], _ = r.Value()
			}
		}
	}
	for i := range columns {
		if !columns[i].known {
			columns[i].old, _ = r.Value()
		}
	}
}

// changed renders an update with the columns that it changed.
func (r *renderer) changed(c *change) {
	t := c.table
	r.open(t, "update")
	r.text = append(t.appendKey(r.text, c.id, c.after), `,"before":{`...)
	for i := range c.cols {
		r.text = append(AppendJSON(append(r.text, t.columns[c.cols[i].place]...), &c.cols[i].old), ',')
	}
	r.text = append(r.text[:len(r.text)-1], `},"after":{`...)
	for i := range c.cols {
		r.text = append(AppendJSON(append(r.text, t.columns[c.cols[i].place]...), &c.cols[i].new), ',')
	}
	r.text = append(r.text[:len(r.text)-1], "}}"...)
	r.end()
}
