package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// errPartFull ends a part that has reached its limit.
var errPartFull = errors.New("the part is full")

// HashPart is Hashes of some of the rows. It starts at from, goes through the tables by name, ends after the row that
// reaches limit bytes, and returns the next start, which is zero at the end. A table WITHOUT ROWID is never divided.
// Every part includes what Hashes covers besides tables. The caller must have a transaction open.
func (c *Conn) HashPart(from dbaas.HashFrom, limit int, between func()) (hashes map[string]string, next dbaas.HashFrom, err error) {
	c.tables = nil // another connection may have changed the schema.
	tables, err := c.loadTables()
	if err != nil {
		return nil, next, err
	}
	hashes = map[string]string{}
	if err = c.hashRest(hashes, between); err != nil {
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
		hashes[name], next, err = c.hashRange(tables[name], from, &limit, between)
		if err != nil {
			return nil, dbaas.HashFrom{}, fmt.Errorf("hash table %s: %w", name, err)
		}
		if next.Within {
			return hashes, next, nil
		}
	}
	return hashes, dbaas.HashFrom{}, nil
}

// hashRange hashes rows of one table and subtracts their bytes from left. next is inside the table if left is used up
// and more rows may follow.
func (c *Conn) hashRange(t *table, from dbaas.HashFrom, left *int, between func()) (sum string, next dbaas.HashFrom, err error) {
	sql := t.all()
	if !t.withoutRowid {
		first := int64(math.MinInt64)
		if from.Within {
			if from.After == math.MaxInt64 {
				return "", next, nil
			}
			first = from.After + 1
		}
		sql = fmt.Sprintf("SELECT %s, * FROM %s WHERE %[1]s>=%[3]d ORDER BY 1", QuoteName(t.rowid), QuoteName(t.name), first)
	}
	sum, err = c.hashRows(sql, between, func(s *Stmt, size int) error {
		if *left -= size; *left > 0 || t.withoutRowid {
			return nil
		}
		next = dbaas.HashFrom{Table: t.name, Within: true, After: s.int(0)}
		return errPartFull
	})
	if errors.Is(err, errPartFull) {
		err = nil
	}
	return sum, next, err
}
