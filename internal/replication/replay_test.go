package replication_test

import (
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
)

// Entries are replayed whatever they change: the limit of a batch does not hold, neither for many rows nor for a schema
// change that rewrites a table, and the sums are right afterwards.
func TestCapture_Replay_NoLimitHolds(t *testing.T) {
	const rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 2000) "
	p := newPair(t, "CREATE TABLE t(k INTEGER PRIMARY KEY AUTOINCREMENT, v, w)", "CREATE TABLE u(k PRIMARY KEY, v) WITHOUT ROWID", rows+"INSERT INTO t(v,w) SELECT i, 'text' FROM n")
	entries := []dbaas.Entry{
		p.record(rows+"INSERT INTO u SELECT i, 'text' FROM n", "UPDATE t SET v='other'"),
		p.record("DELETE FROM u WHERE k<>7", "DELETE FROM t WHERE k>1500"),
	}
	for _, text := range []string{"ALTER TABLE t DROP COLUMN w", "CREATE TABLE added(x)", "DROP TABLE u"} {
		if err := p.src.ChangeSchema(text); err != nil {
			t.Fatal(err)
		}
		p.seq++
		entries = append(entries, dbaas.Entry{Seq: p.seq, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte(text)}}})
	}
	entries = append(entries, p.record("INSERT INTO t(v) VALUES('last')", "INSERT INTO added VALUES(1)"))
	capture := replication.NewCapture(p.dst, writes, 1000)
	for _, part := range [][]dbaas.Entry{entries[:1], entries[1:2], entries[2:]} {
		if err := p.dst.BeginWrite(); err != nil {
			t.Fatal(err)
		}
		if err := capture.KeepSums(); err != nil {
			t.Fatal(err)
		}
		err := capture.Replay(func(apply func(dbaas.Entry) error) error {
			for _, e := range part {
				if err := apply(e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err = p.dst.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, damaged, err := replication.HashesAndDamage(p.dst, func() {}); err != nil || len(damaged) > 0 {
			t.Errorf("damaged tables %v, %v", damaged, err)
		}
	}
	p.same()
}
