package replication

import (
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// The columns of a primary key are never NULL. The engine enforces that only in tables WITHOUT ROWID, in STRICT tables
// and in columns declared NOT NULL. For all other columns Capture enforces it.

// checkKey remembers t if the new row has NULL in its primary key.
func (k *Capture) checkKey(t *table, ch *sqlite.RowChange) {
	for _, n := range t.notNull {
		v, err := ch.New(t.index[n])
		if err != nil {
			k.err = err
			return
		}
		if v.Kind == dbaas.KindNull && !slices.Contains(k.nulls, t) {
			k.nulls = append(k.nulls, t)
		}
	}
}

// Keys returns CodeConstraint if the statement that ran since Next left a row with NULL in its primary key. The caller
// must then undo the statement. Keys reads the rows, since a trigger may have replaced the NULL in the same statement.
func (k *Capture) Keys() error {
	slices.SortFunc(k.nulls, func(a, b *table) int { return strings.Compare(a.name, b.name) })
	for _, t := range k.nulls {
		for _, n := range t.notNull {
			column := QuoteName(t.columns[n])
			err := k.c.QueryOnce("SELECT 1 FROM "+QuoteName(t.name)+" WHERE "+column+" IS NULL LIMIT 1", func(sqlite.Row) error {
				return dbaas.Errorf(dbaas.CodeConstraint, "NOT NULL constraint failed: %s.%s", t.name, t.columns[n])
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
