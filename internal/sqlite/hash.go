package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"strings"

	"rideshare/internal/dbaas"
)

// SchemaHash is the key of the schema's own hash in Hashes. No table can have it.
const SchemaHash = "(schema)"

// hashPart is how many bytes are hashed at a time: a fraction of a millisecond.
const hashPart = 64 << 10

// Hashes returns one hash for each application table, over its rows in the order
// of the primary key, and one over the schema's text under SchemaHash. Two files
// have equal hashes if and only if clients cannot tell them apart, but for the next
// AUTOINCREMENT value. The caller has a transaction open, so that all are of one state.
//
// It calls between after every 64 KiB or so: that is where long work can rest.
func (c *Conn) Hashes(between func()) (map[string]string, error) {
	tables, err := c.Tables()
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string, len(tables)+1)
	for _, t := range tables {
		if hashes[t], err = c.hashTable(t, between); err != nil {
			return nil, fmt.Errorf("hash table %s: %w", t, err)
		}
	}
	hashes[SchemaHash], err = c.hashRows(`SELECT type, name, tbl_name, sql FROM sqlite_master
		WHERE substr(lower(tbl_name),1,3)<>'rs_' AND sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`, between)
	if err != nil {
		return nil, fmt.Errorf("hash schema: %w", err)
	}
	return hashes, nil
}

func (c *Conn) hashTable(table string, between func()) (string, error) {
	key, err := c.primaryKey(table)
	if err != nil {
		return "", err
	}
	order := make([]string, len(key))
	for i, k := range key {
		order[i] = QuoteName(k.name)
	}
	sql := "SELECT * FROM " + QuoteName(table)
	if len(order) > 0 {
		sql += " ORDER BY " + strings.Join(order, ",")
	}
	return c.hashRows(sql, between)
}

func (c *Conn) hashRows(sql string, between func()) (string, error) {
	h := sha256.New()
	var buf []byte
	hashed := 0
	err := c.Query(sql, func(r Row) error {
		buf = buf[:0]
		for i := range r.s.columns {
			buf = appendTyped(buf, r.s, i)
		}
		buf = append(buf, 0xff)
		write(h, buf)
		if hashed += len(buf); hashed >= hashPart {
			hashed = 0
			between()
		}
		return nil
	})
	if s := c.stmts[sql]; s != nil {
		s.finalize()
		delete(c.stmts, sql)
	}
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
