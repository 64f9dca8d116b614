package replication_test

import (
	"slices"
	"strings"
	"testing"

	"rideshare/internal/replication"
	"rideshare/internal/testkit/sqlitetest"
)

// batch runs the parts in one batch of a capture that keeps sums, as persdb does.
func (p *pair) batch(k *replication.Capture, parts ...func() error) {
	p.t.Helper()
	if err := p.src.BeginWrite(); err != nil {
		p.t.Fatal(err)
	}
	if err := k.KeepSums(); err != nil {
		p.t.Fatal(err)
	}
	if err := k.Begin(); err != nil {
		p.t.Fatal(err)
	}
	for _, part := range parts {
		if err := k.Next(); err != nil {
			p.t.Fatal(err)
		}
		if err := part(); err != nil {
			p.t.Fatal(err)
		}
	}
	if _, err := k.Take(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.src.Commit(); err != nil {
		p.t.Fatal(err)
	}
	k.Committed()
	k.End()
}

// change returns a statement as a part of a batch.
func change(p *pair, k *replication.Capture, sql string) func() error {
	words := strings.Fields(sql)
	run := func() error { return p.src.ChangeSchema(sql) }
	switch words[0] {
	case "CREATE":
		return func() error { return k.Schema(sql, nil, run) }
	case "ALTER", "DROP":
		return func() error { return k.Schema(sql, words[2:3], run) }
	}
	return run
}

// A schema change that leaves a table's rows as they are reads none of them: a large table would hold up the commit. So the sum
// still tells that a row was damaged before.
func TestCapture_Schema_RowsAreNotSummedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		changes []string
		damaged []string
	}{
		"Rename":          {[]string{"ALTER TABLE t RENAME TO u"}, []string{"u"}},
		"RenameTwice":     {[]string{"ALTER TABLE t RENAME TO u", "UPDATE u SET v='x'", "ALTER TABLE u RENAME TO w"}, []string{"w"}},
		"RowsBefore":      {[]string{"INSERT INTO t(v) VALUES('b')", "ALTER TABLE t RENAME TO u", "DELETE FROM u WHERE v='b'"}, []string{"u"}},
		"Column":          {[]string{"ALTER TABLE t RENAME COLUMN v TO w", "INSERT INTO t(w) VALUES('b')"}, []string{"t"}},
		"Virtual":         {[]string{"ALTER TABLE t ADD COLUMN w AS (v)"}, []string{"t"}},
		"Back":            {[]string{"ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"}, nil},
		"Another":         {[]string{"ALTER TABLE t RENAME TO u", "CREATE TABLE t(v)", "INSERT INTO t VALUES(1)"}, []string{"u"}},
		"Added":           {[]string{"ALTER TABLE t ADD COLUMN w DEFAULT 1"}, nil},
		"AddedAndRenamed": {[]string{"ALTER TABLE t ADD COLUMN w DEFAULT 1", "ALTER TABLE t RENAME TO u"}, nil},
		"RenamedAndAdded": {[]string{"ALTER TABLE t RENAME TO u", "ALTER TABLE u ADD COLUMN w DEFAULT 1"}, nil},
		"Dropped":         {[]string{"ALTER TABLE t RENAME TO u", "DROP TABLE u", "CREATE TABLE u(v)"}, nil},
		"New":             {[]string{"CREATE TABLE a(v)", "INSERT INTO a VALUES(1)", "ALTER TABLE a RENAME TO b"}, []string{"t"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "INSERT INTO t(v) VALUES('a'),('c')", "CREATE TABLE other(t REFERENCES t)")
			k := replication.NewCapture(p.src, writes, 1<<30)
			p.batch(k)
			sqlitetest.Exec(t, p.src, "UPDATE t SET v='damage' WHERE id=1") // behind the capture's back
			var parts []func() error
			for _, sql := range tc.changes {
				parts = append(parts, change(p, k, sql))
			}
			p.batch(k, parts...)
			if _, damaged, err := replication.HashesAndDamage(p.src, func() {}); err != nil || !slices.Equal(damaged, tc.damaged) {
				t.Errorf("damaged tables %v, %v, want %v", damaged, err, tc.damaged)
			}
		})
	}
}
