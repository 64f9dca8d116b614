package rowlog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/rowlog"
	"rideshare/internal/testkit/storetest"
)

// An event has what became of each row: states inside the commit are not seen.
func TestEvent_NetEffect(t *testing.T) {
	for name, tc := range map[string]struct{ sql, want string }{
		"made and removed":       {`INSERT INTO p VALUES('x',1,1); DELETE FROM p WHERE a='x'`, ``},
		"made and changed":       {`INSERT INTO p VALUES('x',1,1); UPDATE p SET c=9 WHERE a='x'`, `{"op":"insert","table":"p","key":{"a":"x"},"after":{"a":"x","b":1,"c":9}}`},
		"made, its key changed":  {`INSERT INTO p VALUES('x',1,1); UPDATE p SET a='y' WHERE a='x'`, `{"op":"insert","table":"p","key":{"a":"y"},"after":{"a":"y","b":1,"c":1}}`},
		"changed twice":          {`UPDATE p SET c=1 WHERE a='one'; UPDATE p SET b=2, c=3 WHERE a='one'`, `{"op":"update","table":"p","key":{"a":"one"},"before":{"b":10,"c":20},"after":{"b":2,"c":3}}`},
		"changed back":           {`UPDATE p SET b=1, c=1 WHERE a='one'; UPDATE p SET b=10 WHERE a='one'; UPDATE p SET c=20 WHERE a='one'`, ``},
		"changed and removed":    {`UPDATE p SET c=1 WHERE a='one'; DELETE FROM p WHERE a='one'`, `{"op":"delete","table":"p","key":{"a":"one"},"before":{"a":"one","b":10,"c":20}}`},
		"removed and made":       {`DELETE FROM p WHERE a='one'; INSERT INTO p VALUES('one',10,21)`, `{"op":"update","table":"p","key":{"a":"one"},"before":{"c":20},"after":{"c":21}}`},
		"removed and made again": {`DELETE FROM p WHERE a='one'; INSERT INTO p VALUES('one',10,20)`, ``},
		"replaced":               {`REPLACE INTO p VALUES('one',10,NULL)`, `{"op":"update","table":"p","key":{"a":"one"},"before":{"c":20},"after":{"c":null}}`},
		"removed after all that": {`REPLACE INTO p VALUES('one',1,1); UPDATE p SET b=2; DELETE FROM p WHERE a='one'; INSERT INTO p VALUES('one',0,0); DELETE FROM p`, `{"op":"delete","table":"p","key":{"a":"one"},"before":{"a":"one","b":10,"c":20}}`},
		"key changed and back":   {`UPDATE p SET a='x'; UPDATE p SET a='one'`, ``},
		"without row ids, swapped": {`UPDATE w SET k=3 WHERE k=1; UPDATE w SET k=1 WHERE k=2; UPDATE w SET k=2 WHERE k=3`, `{"op":"update","table":"w","key":{"k":1},"before":{"v":"a"},"after":{"v":"b"}}
{"op":"update","table":"w","key":{"k":2},"before":{"v":"b"},"after":{"v":"a"}}`},
		"row id changed and back": {`UPDATE n SET rowid=9 WHERE rowid=1; UPDATE n SET rowid=1, v='z' WHERE rowid=9`, `{"op":"update","table":"n","key":{"rowid":1},"before":{"v":"a"},"after":{"v":"z"}}`},
		"around a schema change": {`INSERT INTO n VALUES('x'); ALTER TABLE n ADD m; DELETE FROM n WHERE v='x'`, `{"op":"insert","table":"n","key":{"rowid":2},"after":{"v":"x"}}
{"op":"schema","sql":"ALTER TABLE n ADD m"}
{"op":"delete","table":"n","key":{"rowid":2},"before":{"v":"x","m":null}}`},
		"several operations": {`INSERT INTO p VALUES('x',1,1)|INSERT INTO n VALUES('y')|DELETE FROM p WHERE a='x'`, `{"op":"insert","table":"n","key":{"rowid":2},"after":{"v":"y"}}`},
		"tables of similar names": {`INSERT INTO É VALUES(1); UPDATE é SET b=2`, `{"op":"insert","table":"É","key":{"rowid":1},"after":{"a":1}}
{"op":"update","table":"é","key":{"rowid":1},"before":{"b":1},"after":{"b":2}}`},
		"tables of similar names, one row": {`INSERT INTO É VALUES(1); DELETE FROM é`, `{"op":"insert","table":"É","key":{"rowid":1},"after":{"a":1}}
{"op":"delete","table":"é","key":{"rowid":1},"before":{"a":1,"b":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			l.commit(t, `CREATE TABLE É(a); CREATE TABLE é(a, b); INSERT INTO é VALUES(1,1)`, `CREATE TABLE p(a TEXT PRIMARY KEY, b, c); INSERT INTO p VALUES('one',10,20)`, `CREATE TABLE n(v); INSERT INTO n VALUES('a')`,
				`CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO w VALUES(1,'a'),(2,'b')`)
			if got := changes(t, l.commit(t, strings.Split(tc.sql, "|")...)); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// A large table that is emptied as a whole: each row that was there before the commit is a delete with its key and values.
func TestEvent_EmptiedTable_EachRowIsDeleted(t *testing.T) {
	l := open(t)
	const fill = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1200) INSERT INTO %s SELECT 'v'||i, i FROM n`
	for _, table := range []string{"k(v, i INTEGER PRIMARY KEY)", "n(v, i)", "w(v, i REAL PRIMARY KEY) WITHOUT ROWID"} {
		name := table[:1]
		l.commit(t, `CREATE TABLE `+table)
		l.commit(t, fmt.Sprintf(fill, name)) // alone, so that it has all the time that a write may take
		got := strings.Split(changes(t, l.commit(t, `INSERT INTO `+name+` VALUES('new', 5000); UPDATE `+name+` SET v='changed' WHERE i=7; DELETE FROM `+name+`; INSERT INTO `+name+` VALUES('after', 6000)`)), "\n")
		key, row := map[string]string{"k": `{"i":7}`, "n": `{"rowid":7}`, "w": `{"i":7.0}`}[name], map[string]string{"w": `{"v":"v7","i":7.0}`}[name]
		if row == "" {
			row = `{"v":"v7","i":7}`
		}
		want := fmt.Sprintf(`{"op":"delete","table":"%s","key":%s,"before":%s}`, name, key, row)
		text := strings.Join(got, "\n")
		// A table without AUTOINCREMENT gives the row id of a removed row again: row 1 of n is changed.
		if strings.Count(text, `"op":"delete"`)+strings.Count(text, `"op":"update"`) != 1200 || !strings.Contains(text, want+"\n") || strings.Contains(text, "new") || len(got) > 1201 {
			t.Errorf("%s: got %d changes, the first %.300s; want 1,200 deletes, one of them %s", table, len(got), text, want)
		}
	}
}

// The text of an emptied table takes no more memory than it needs, also if its first rows are far larger than the others.
func TestEvent_EmptiedTable_LargeRowsFirst(t *testing.T) {
	const rows = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) INSERT INTO t SELECT %s FROM n`
	l := open(t)
	l.commit(t, "CREATE TABLE t(v)")
	l.commit(t, fmt.Sprintf(rows, 1001, "hex(zeroblob(5000))"))
	l.commit(t, fmt.Sprintf(rows, 100_000, "i"))
	e := l.commit(t, "DELETE FROM t")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	event, err := rowlog.NewEvent(e)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for piece := range event.Pieces(nil) {
		size += len(piece)
	}
	if took := int(after.TotalAlloc - before.TotalAlloc); size < 15<<20 || took > 10*size {
		t.Errorf("an event of %d bytes took %d bytes of memory", size, took)
	}
}

// consumer keeps tables as a consumer of the feed has them, and fails if a change does not fit.
type consumer map[string]map[string]json.RawMessage

func (c consumer) take(t *testing.T, e *dbaas.Entry) {
	t.Helper()
	event, err := rowlog.NewEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(slices.Collect(event.Pieces(nil))...)
	var got struct {
		Changes []struct {
			Op, Table     string
			Key           json.RawMessage
			Before, After map[string]json.RawMessage
		}
	}
	if err = json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, ch := range got.Changes {
		id := ch.Table + string(ch.Key)
		if ch.Op == "schema" {
			continue
		}
		row := c[id]
		if seen[id] || (row == nil) != (ch.Op == "insert") {
			t.Fatalf("%s of %s, whose row is %s, in\n%s", ch.Op, id, row, text)
		}
		seen[id] = true
		for name, old := range ch.Before {
			if string(row[name]) != string(old) {
				t.Fatalf("%s: before %s, was %s in\n%s", id, old, row[name], text)
			}
		}
		switch ch.Op {
		case "delete":
			delete(c, id)
		case "insert":
			c[id] = ch.After
		case "update":
			c[id] = maps.Clone(row)
			maps.Copy(c[id], ch.After)
		}
	}
}

// A consumer that applies each change of random commits has the tables, and no commit has two changes of a row.
func TestEvent_RandomCommits_ConsumerHasTheTables(t *testing.T) {
	l, c := open(t), consumer{}
	rnd := rand.New(rand.NewPCG(1, 21))
	c.take(t, l.commit(t, `CREATE TABLE p(a TEXT PRIMARY KEY, b UNIQUE ON CONFLICT REPLACE, c); CREATE TABLE n(b, c); CREATE TABLE i(a INTEGER PRIMARY KEY, b, c); CREATE TABLE w(a, b, c, PRIMARY KEY(b, a)) WITHOUT ROWID`))
	small := func() int { return rnd.IntN(5) }
	for range 300 {
		var statements []string
		for range 1 + rnd.IntN(6) {
			sql := []string{
				fmt.Sprintf(`INSERT OR REPLACE INTO p VALUES('%d', %d, %d)`, small(), small(), small()), fmt.Sprintf(`UPDATE OR REPLACE p SET a='%d', c=%d WHERE a='%d'`, small(), small(), small()),
				fmt.Sprintf(`DELETE FROM p WHERE a='%d'`, small()), fmt.Sprintf(`UPDATE p SET c=%d, rowid=rowid+100 WHERE b>%d`, small(), small()),
				fmt.Sprintf(`INSERT INTO n(rowid, b, c) SELECT coalesce(max(rowid), 0)+1, %d, %d FROM n`, small(), small()), fmt.Sprintf(`DELETE FROM n WHERE b=%d`, small()), fmt.Sprintf(`UPDATE n SET c=%d WHERE b=%d`, small(), small()),
				fmt.Sprintf(`REPLACE INTO i VALUES(%d, %d, %d)`, small(), small(), small()), fmt.Sprintf(`UPDATE OR REPLACE i SET a=%d, b=%d WHERE a=%d`, small(), small(), small()),
				fmt.Sprintf(`REPLACE INTO w VALUES(%d, %d, %d)`, small(), small(), small()), fmt.Sprintf(`UPDATE OR REPLACE w SET a=%d WHERE a=%d`, small(), small()), fmt.Sprintf(`DELETE FROM w WHERE c<%d`, small()),
			}
			statements = append(statements, sql[rnd.IntN(len(sql))])
		}
		c.take(t, l.commit(t, strings.Join(statements, "; ")))
	}
	l.ops++
	result := storetest.Commit(t, l, l.epoch, storetest.Op(l.ops, `SELECT 'p{"a":"'||a||'"}', b, c FROM p UNION ALL SELECT 'n{"rowid":'||rowid||'}', b, c FROM n
		UNION ALL SELECT 'i{"a":'||a||'}', b, c FROM i UNION ALL SELECT 'w{"b":'||b||',"a":'||a||'}', b, c FROM w`)).Results[0].Statements[0]
	for _, row := range result.Rows {
		got := c[row[0].Text]
		if got == nil || string(got["b"]) != fmt.Sprint(row[1].Int) || string(got["c"]) != fmt.Sprint(row[2].Int) {
			t.Errorf("%s: the consumer has %s, want %d and %d", row[0].Text, got, row[1].Int, row[2].Int)
		}
	}
	if len(result.Rows) != len(c) || len(c) == 0 {
		t.Errorf("the consumer has %d rows, the tables %d: %s", len(c), len(result.Rows), result.Message)
	}
}
