package replication

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// SchemaHash is the key of the schema's own hash in Hashes. No table can have this name.
const SchemaHash = "(schema)"

// hashPart is the number of bytes hashed between two calls of between: a fraction of a millisecond.
const hashPart = 64 << 10

// Hashes returns one hash for each application table, over its rows with their row ids in storage order; one over the
// counters of AUTOINCREMENT, if there are any; and one over the schema's text, under SchemaHash. Two files have equal
// hashes if and only if clients cannot tell them apart. The caller must have a transaction open on c, so that all
// hashes are of the same state.
//
// Hashes calls between about every 64 KiB, so that the caller can pause long work there.
func Hashes(c *sqlite.Conn, between func()) (map[string]string, error) {
	return hashAll(c, between, nil)
}

// HashesAndDamage is Hashes for a file with sums (Capture.KeepSums). It also returns, sorted, the tables whose rows
// differ from the committed rows: their bytes changed on the disk, or were changed outside of this package.
func HashesAndDamage(c *sqlite.Conn, between func()) (hashes map[string]string, damaged []string, err error) {
	seen := map[string]tableSum{}
	if hashes, err = hashAll(c, between, seen); err != nil {
		return nil, nil, err
	}
	total, err := readSums(c)
	for name, sum := range seen {
		if kept, known := total[name]; known && kept != sum {
			damaged = append(damaged, name)
		}
	}
	slices.Sort(damaged)
	return hashes, damaged, err
}

// hashAll also adds the sum of each table's rows to seen, unless seen is nil.
func hashAll(c *sqlite.Conn, between func(), seen map[string]tableSum) (map[string]string, error) {
	tables, err := loadTables(c)
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string, len(tables)+2)
	for name, t := range tables {
		var buf []byte
		var sum tableSum
		hashes[name], err = hashRows(c, t.all(), between, func(r sqlite.Row, _ int) error {
			if seen != nil {
				buf = t.appendRow(buf[:0], r)
				sum = tableSum{rows: sum.rows + 1, sum: sum.sum + rowSum(buf)}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("hash table %s: %w", name, err)
		}
		if seen != nil {
			seen[name] = sum
		}
	}
	return hashes, hashRest(c, hashes, between)
}

// hashRest adds the hashes that are not of tables: the counters of AUTOINCREMENT, if there are any, and the schema.
func hashRest(c *sqlite.Conn, hashes map[string]string, between func()) error {
	counters, err := c.Counters()
	if err == nil && len(counters) > 0 {
		hashes[sqlite.CounterTable], err = hashRows(c, "SELECT rowid, name, seq FROM "+sqlite.CounterTable+" ORDER BY 1", between, everyRow)
	}
	if err != nil {
		return fmt.Errorf("hash counters: %w", err)
	}
	hashes[SchemaHash], err = hashRows(c, `SELECT type, name, tbl_name, sql FROM sqlite_master
		WHERE substr(lower(tbl_name),1,3)<>'rs_' AND sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`, between, everyRow)
	if err != nil {
		return fmt.Errorf("hash schema: %w", err)
	}
	return nil
}

func everyRow(sqlite.Row, int) error { return nil }

// hashRows hashes rows until there are no more, or row returns an error. It calls row with each row and its size.
func hashRows(c *sqlite.Conn, sql string, between func(), row func(sqlite.Row, int) error) (string, error) {
	h := sha256.New()
	var buf []byte
	hashed := 0
	err := c.QueryOnce(sql, func(r sqlite.Row) error {
		buf = buf[:0]
		for i := range r.Columns() {
			buf = appendTyped(buf, r.Borrow(i))
		}
		buf = append(buf, 0xff)
		write(h, buf)
		if hashed += len(buf); hashed >= hashPart {
			hashed = 0
			between()
		}
		return row(r, len(buf))
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func write(h hash.Hash, b []byte) { _, _ = h.Write(b) } // a Hash never returns an error, by its documentation.

// appendTyped encodes a value so that different values have different encodings.
func appendTyped(b []byte, v dbaas.Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case dbaas.KindInteger:
		return binary.BigEndian.AppendUint64(b, uint64(v.Int))
	case dbaas.KindFloat:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float))
	case dbaas.KindText:
		return append(binary.AppendUvarint(b, uint64(len(v.Text))), v.Text...)
	case dbaas.KindBlob:
		return append(binary.AppendUvarint(b, uint64(len(v.Blob))), v.Blob...)
	case dbaas.KindNull:
	}
	return b
}
