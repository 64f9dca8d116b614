package commitlog_test

import (
	"testing"
	"time"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// Whatever text a client sends, as a statement or as a load: the store goes on, the next operation is done, a replica
// follows, and the sums of the rows fit.
func FuzzStore_Commit_AnyText(f *testing.F) {
	for _, text := range []string{
		"CREATE TABLE t(a REAL DEFAULT 1, b AS (a+1)); INSERT INTO t(a) VALUES(1),('x'),(x'00'); ALTER TABLE t ADD c DOUBLE DEFAULT 7; UPDATE t SET a=c RETURNING *",
		"CREATE TABLE k(a TEXT PRIMARY KEY COLLATE NOCASE, b UNIQUE ON CONFLICT REPLACE) WITHOUT ROWID; INSERT OR FAIL INTO k VALUES('a',1),('A',2)",
		"CREATE TRIGGER g AFTER INSERT ON rides BEGIN DELETE FROM users; END; PRAGMA writable_schema=1; UPDATE sqlite_master SET sql=''",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n; ATTACH 'x' AS y; VACUUM; BEGIN",
		"EXPLAIN DELETE FROM users; DROP TABLE IF EXISTS rs_position; CREATE VIEW v AS SELECT * FROM pragma_table_info('users')",
		"INSERT INTO users SELECT hex(randomblob(4)), zeroblob(9) FROM (VALUES(1),(2)); DELETE FROM users; REPLACE INTO sqlite_sequence VALUES('rides', 9e99)",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, load bool) {
		if !utf8.ValidString(text) {
			return // the API refuses it
		}
		s := open(t, commitlog.Config{})
		epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
		hostile := op(1, text)
		hostile.StatementTime = 100 * time.Millisecond
		if load {
			hostile.Load, hostile.Deadline = dbaas.LoadText, time.Now().Add(dbaas.LoadGrace+200*time.Millisecond)
		}
		storetest.Commit(t, s, epoch, hostile)
		if got := outcome(storetest.Commit(t, s, epoch, op(2, "INSERT OR REPLACE INTO users VALUES('next','x')")).Results[0]); got != "ok" {
			t.Errorf("the next operation: got %s, want ok", got)
		}
		r.Follow(t, s)
		if h, err := s.Hashes(t.Context()); err != nil || len(h.Damaged) > 0 {
			t.Errorf("got damaged tables %v, %v, want none", h.Damaged, err)
		}
	})
}
