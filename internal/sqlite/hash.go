package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// SchemaHash is the key of the schema's own hash in Hashes. No table can have this name.
const SchemaHash = "(schema)"

// hashPart is how many bytes are hashed before between is called: a fraction of a millisecond.
const hashPart = 64 << 10

// Hashes returns one hash for each application table, over its rows with their row ids in storage order; one over the
// counters of AUTOINCREMENT, if there are any; and one over the schema's text under SchemaHash. Two files have equal
// hashes if and only if clients cannot tell them apart. The caller must have a transaction open, so that all hashes are
// of one state.
//
// Hashes calls between about every 64 KiB, so that long work can pause there.
func (c *Conn) Hashes(between func()) (map[string]string, error) { return c.hashAll(between, nil) }

// HashesAndDamage is Hashes for a file with sums (Capture.KeepSums). It also returns, in order, the tables whose rows
// differ from the committed ones: their bytes changed on the disk, or were changed outside of this package.
func (c *Conn) HashesAndDamage(between func()) (hashes map[string]string, damaged []string, err error) {
	seen := map[string]tableSum{}
	if hashes, err = c.hashAll(between, seen); err != nil {
		return nil, nil, err
	}
	total, err := c.readSums()
	for name, sum := range seen {
		if kept, known := total[name]; known && kept != sum {
			damaged = append(damaged, name)
		}
	}
	slices.Sort(damaged)
	return hashes, damaged, err
}

// hashAll also adds the sum of each table's rows to seen, unless seen is nil.
func (c *Conn) hashAll(between func(), seen map[string]tableSum) (map[string]string, error) {
	c.tables = nil // another connection may have changed the schema.
	tables, err := c.loadTables()
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string, len(tables)+2)
	for name, t := range tables {
		var buf []byte
		var sum tableSum
		hashes[name], err = c.hashRows(t.all(), between, func(s *Stmt, _ int) error {
			if seen != nil {
				buf = t.appendRow(buf[:0], s)
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
	return hashes, c.hashRest(hashes, between)
}

// hashRest adds the hashes besides the tables: the counters of AUTOINCREMENT, if there are any, and the schema.
func (c *Conn) hashRest(hashes map[string]string, between func()) error {
	counters, err := c.readSequences()
	if err == nil && len(counters) > 0 {
		hashes[sequenceTable], err = c.hashRows("SELECT rowid, name, seq FROM "+sequenceTable+" ORDER BY 1", between, everyRow)
	}
	if err != nil {
		return fmt.Errorf("hash counters: %w", err)
	}
	hashes[SchemaHash], err = c.hashRows(`SELECT type, name, tbl_name, sql FROM sqlite_master
		WHERE substr(lower(tbl_name),1,3)<>'rs_' AND sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`, between, everyRow)
	if err != nil {
		return fmt.Errorf("hash schema: %w", err)
	}
	return nil
}

func everyRow(*Stmt, int) error { return nil }

// hashRows hashes rows until there are no more, or row returns an error. It calls row with each row and its size.
func (c *Conn) hashRows(sql string, between func(), row func(*Stmt, int) error) (string, error) {
	h := sha256.New()
	var buf []byte
	hashed := 0
	err := c.queryOnce(sql, func(r Row) error {
		buf = buf[:0]
		for i := range r.s.results {
			buf = appendTyped(buf, r.s, i)
		}
		buf = append(buf, 0xff)
		write(h, buf)
		if hashed += len(buf); hashed >= hashPart {
			hashed = 0
			between()
		}
		return row(r.s, len(buf))
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func write(h hash.Hash, b []byte) { _, _ = h.Write(b) } // a Hash never returns an error, by its documentation.

// appendTyped encodes a value so that different values have different encodings.
func appendTyped(b []byte, s *Stmt, i int) []byte {
	kind := s.kind(i)
	b = append(b, byte(kind))
	switch kind {
	case dbaas.KindInteger:
		return binary.BigEndian.AppendUint64(b, uint64(s.int(i))) //nolint:gosec // the bits matter, not the sign.
	case dbaas.KindFloat:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(s.float(i)))
	case dbaas.KindText:
		v := s.text(i)
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case dbaas.KindBlob:
		v := s.blob(i)
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case dbaas.KindNull:
	}
	return b
}
