package replication

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// errPartFull ends a part that has reached its limit.
var errPartFull = errors.New("the part is full")

// HashPart is Hashes of some of the rows. It starts at from, goes through the tables by name, and ends after the row
// that reaches limit bytes. next is where the next part starts; it is zero after the last part. A table WITHOUT ROWID
// is never divided. Every part includes the hashes of counters and schema. The caller must have a transaction open.
func HashPart(c *sqlite.Conn, from dbaas.HashFrom, limit int, between func()) (hashes map[string]string, next dbaas.HashFrom, err error) {
	tables, err := loadTables(c)
	if err != nil {
		return nil, next, err
	}
	hashes = map[string]string{}
	if err = hashRest(c, hashes, between); err != nil {
		return nil, next, err
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name < from.Table {
			continue
		}
		if limit <= 0 {
			return hashes, dbaas.HashFrom{Table: name}, nil
		}
		if name != from.Table {
			from = dbaas.HashFrom{Table: name}
		}
		hashes[name], next, err = tables[name].hashRange(c, from, &limit, between)
		if err != nil {
			return nil, dbaas.HashFrom{}, fmt.Errorf("hash table %s: %w", name, err)
		}
		if next.Within {
			return hashes, next, nil
		}
	}
	return hashes, dbaas.HashFrom{}, nil
}

// hashRange hashes rows of one table and subtracts their sizes from left. If left is used up and more rows may follow,
// next is inside the table.
func (t *table) hashRange(c *sqlite.Conn, from dbaas.HashFrom, left *int, between func()) (sum string, next dbaas.HashFrom, err error) {
	sql := t.all()
	if !t.withoutRowid {
		first := int64(math.MinInt64)
		if from.Within {
			if from.After == math.MaxInt64 {
				return "", next, nil
			}
			first = from.After + 1
		}
		sql = fmt.Sprintf("%s WHERE %s>=%d ORDER BY 1", t.rows(), QuoteName(t.rowid), first)
	}
	sum, err = hashRows(c, sql, between, func(r sqlite.Row, size int) error {
		if *left -= size; *left > 0 || t.withoutRowid {
			return nil
		}
		next = dbaas.HashFrom{Table: t.name, Within: true, After: r.Int(0)}
		return errPartFull
	})
	if errors.Is(err, errPartFull) {
		err = nil
	}
	return sum, next, err
}
