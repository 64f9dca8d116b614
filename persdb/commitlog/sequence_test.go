package commitlog_test

import (
	"testing"

	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A failed statement leaves the counters of AUTOINCREMENT as they were, also if the statement itself or a trigger that is
// newer than its compiled form writes to them.
func TestStore_Commit_FailedStatementLeavesCounters(t *testing.T) {
	const infinite, insert = "invalid: column 9e999 holds an infinity, which JSON cannot carry", "INSERT INTO y VALUES(1)"
	for name, tc := range map[string]struct {
		before    []string
		sql, want string
	}{
		"Infinity":  {nil, "UPDATE sqlite_sequence SET seq=1000 WHERE name='x' RETURNING 9e999", infinite},
		"Delete":    {nil, "DELETE FROM sqlite_sequence RETURNING 9e999", infinite},
		"SecondRow": {nil, "UPDATE sqlite_sequence SET seq=CASE name WHEN 'x' THEN 7 ELSE abs(-9223372036854775803-seq) END", "invalid: integer overflow"},
		"OrFail":    {nil, "INSERT OR FAIL INTO sqlite_sequence(rowid, name, seq) VALUES(9,'x',1000),(1,'x',1000)", "constraint: UNIQUE constraint failed: sqlite_sequence.rowid"},
		"Trigger":   {[]string{counting}, insert, "constraint: no"},
		"Later":     {[]string{insert, counting}, insert, "constraint: no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
			setup := []string{"CREATE TABLE x(id INTEGER PRIMARY KEY AUTOINCREMENT)", "CREATE TABLE z(id INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO x VALUES(5)", "INSERT INTO z VALUES(5)", "CREATE TABLE y(v)"}
			storetest.Commit(t, s, epoch, op(1, append(setup, tc.before...)...))
			const counters = "SELECT group_concat(name||seq, ' ') FROM (SELECT * FROM sqlite_sequence ORDER BY name)"
			c := storetest.Commit(t, s, epoch, op(2, ann), op(3, tc.sql), op(4, bob), op(5, counters))
			for i, want := range []string{"ok", tc.want, "ok", "ok"} {
				if got := outcome(c.Results[i]); got != want {
					t.Errorf("operation %d: got %s, want %s", i+2, got, want)
				}
			}
			if got := c.Results[3].Statements[0].Rows[0][0].Text; got != "x5 z5" {
				t.Errorf("got counters %s, want x5 z5", got)
			}
			r.Follow(t, s)
		})
	}
}

const counting = "CREATE TRIGGER g BEFORE INSERT ON y BEGIN UPDATE sqlite_sequence SET seq=7 WHERE name='x'; SELECT RAISE(FAIL,'no'); END"
