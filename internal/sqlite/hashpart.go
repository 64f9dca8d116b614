package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// errPartFull ends a part.
var errPartFull = errors.New("the part is full")

// HashPart is Hashes of some rows: from a place on, in the order of the tables' names, it ends after the row with which limit
// bytes are reached, and returns the place after it, zero at the end. A table WITHOUT ROWID is not divided. What is
// beside the tables is in every part. The caller has a transaction open.
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

// hashRange hashes rows of one table, and takes their bytes from left. The place after them is inside of the table if
// nothing is left and there may be more rows.
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
