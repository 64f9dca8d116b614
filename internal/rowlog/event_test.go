package rowlog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/internal/rowlog"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// log is a store whose commits a test reads as the feed does.
type log struct {
	*commitlog.Store

	epoch dbaas.Epoch
	ops   int
}

// A large delete that is undone leaves the rows of its neighbours in the same commit.
func TestEvent_UndoneLargeDelete_NeighboursAreSent(t *testing.T) {
	l := open(t)
	l.commit(t, "CREATE TABLE big(v)", "CREATE TABLE n(v)")
	l.commit(t, "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM s WHERE i<1100) INSERT INTO big SELECT zeroblob(32768) FROM s")
	e := l.commit(t, "INSERT INTO n VALUES('a')", "DELETE FROM big; SELECT * FROM nope", "INSERT INTO n VALUES('b')")
	if got := changes(t, e); !strings.Contains(got, `"a"`) || !strings.Contains(got, `"b"`) {
		t.Errorf("got %s, want the rows a and b", got)
	}
}

func open(t *testing.T) *log {
	t.Helper()
	at := time.Date(2026, 11, 22, 5, 0, 0, 123e6, time.UTC)
	s, err := commitlog.Open(t.Context(), commitlog.Config{
		Dir: t.TempDir(), Schema: rideschema.Create(), Protected: rideschema.Protected(), TrimEvery: -1, Now: func() time.Time { return at },
		SharedLimit: time.Minute, StatementLimit: time.Minute, OperationLimit: time.Minute, // however slow the machine is
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &log{Store: s, epoch: storetest.Claim(t, s)}
}

// commit commits one operation for each argument, and returns their entry.
func (l *log) commit(t *testing.T, statements ...string) *dbaas.Entry {
	t.Helper()
	ops := make([]dbaas.Operation, len(statements))
	for i, sql := range statements {
		l.ops++
		ops[i] = storetest.Op(l.ops, strings.Split(sql, "; ")...)
		ops[i].Atomic = true
	}
	head, _ := l.Head(t.Context())
	storetest.Commit(t, l, l.epoch, ops...)
	page, err := l.Changes(t.Context(), head.Seq, 0, 1)
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("got %d entries, %v", len(page.Entries), err)
	}
	return &page.Entries[0]
}

// changes returns the changes of an entry, one a line.
func changes(t *testing.T, e *dbaas.Entry, tables ...string) string {
	t.Helper()
	event, err := rowlog.NewEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(slices.Collect(event.Pieces(tables))...)
	var got struct{ Changes []json.RawMessage }
	if err = json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	lines := make([]string, len(got.Changes))
	for i, c := range got.Changes {
		lines[i] = string(c)
	}
	return strings.Join(lines, "\n")
}

// Each kind of table, value and change has the form that docs/API.md describes, with the columns of its commit.
func TestEvent_Changes(t *testing.T) {
	l := open(t)
	long := strings.Repeat("x", 100)
	for _, tc := range []struct{ sql, want string }{
		{`INSERT INTO users VALUES('ann','pw')`, `{"op":"insert","table":"users","key":{"username":"ann"},"after":{"username":"ann","password":"pw"}}`},
		{`UPDATE users SET password='new'`, `{"op":"update","table":"users","key":{"username":"ann"},"before":{"password":"pw"},"after":{"password":"new"}}`},
		{`UPDATE users SET password='` + long + `'`, `{"op":"update","table":"users","key":{"username":"ann"},"before":{"password":"new"},"after":{"password":"` + long + `"}}`},
		{`UPDATE users SET password='short'`, `{"op":"update","table":"users","key":{"username":"ann"},"before":{"password":"` + long + `"},"after":{"password":"short"}}`},
		{`UPDATE users SET username='bob'`, `{"op":"delete","table":"users","key":{"username":"ann"},"before":{"username":"ann","password":"short"}}
{"op":"insert","table":"users","key":{"username":"bob"},"after":{"username":"bob","password":"short"}}`},
		{`UPDATE users SET rowid=77`, ``},
		{`INSERT INTO rides VALUES(5,'bob','now',1,2,NULL)`, `{"op":"insert","table":"rides","key":{"rideId":5},"after":{"rideId":5,"created_by":"bob","timestamp":"now","source":1,"destination":2,"seats":null}}`},
		{`UPDATE rides SET rideId=6, seats=3`, `{"op":"delete","table":"rides","key":{"rideId":5},"before":{"rideId":5,"created_by":"bob","timestamp":"now","source":1,"destination":2,"seats":null}}
{"op":"insert","table":"rides","key":{"rideId":6},"after":{"rideId":6,"created_by":"bob","timestamp":"now","source":1,"destination":2,"seats":3}}`},
		{`DELETE FROM users`, `{"op":"delete","table":"users","key":{"username":"bob"},"before":{"username":"bob","password":"short"}}
{"op":"delete","table":"rides","key":{"rideId":6},"before":{"rideId":6,"created_by":"bob","timestamp":"now","source":1,"destination":2,"seats":3}}`},
		{`CREATE TABLE t(a)`, `{"op":"schema","sql":"CREATE TABLE t(a)"}`},
		{`INSERT INTO t VALUES(1)`, `{"op":"insert","table":"t","key":{"rowid":1},"after":{"a":1}}`},
		{`ALTER TABLE t ADD b DEFAULT 'd'`, `{"op":"schema","sql":"ALTER TABLE t ADD b DEFAULT 'd'"}`},
		{`UPDATE t SET a=2.0`, `{"op":"update","table":"t","key":{"rowid":1},"before":{"a":1},"after":{"a":2.0}}`},
		{`ALTER TABLE t RENAME a TO "A ""1"""`, `{"op":"schema","sql":"ALTER TABLE t RENAME a TO \"A \"\"1\"\"\""}`},
		{`UPDATE t SET "A ""1"""=3`, `{"op":"update","table":"t","key":{"rowid":1},"before":{"A \"1\"":2.0},"after":{"A \"1\"":3}}`},
		{`ALTER TABLE t DROP "A ""1"""`, `{"op":"schema","sql":"ALTER TABLE t DROP \"A \"\"1\"\"\""}`},
		{`UPDATE t SET rowid=9`, `{"op":"delete","table":"t","key":{"rowid":1},"before":{"b":"d"}}
{"op":"insert","table":"t","key":{"rowid":9},"after":{"b":"d"}}`},
		{`ALTER TABLE t RENAME TO T2`, `{"op":"schema","sql":"ALTER TABLE t RENAME TO T2"}`},
		{`DELETE FROM T2`, `{"op":"delete","table":"T2","key":{"rowid":9},"before":{"b":"d"}}`},
		{`CREATE TABLE w(p, v, q, g AS (v||'!') STORED, PRIMARY KEY(q, p)) WITHOUT ROWID`, `{"op":"schema","sql":"CREATE TABLE w(p, v, q, g AS (v||'!') STORED, PRIMARY KEY(q, p)) WITHOUT ROWID"}`},
		{`INSERT INTO w VALUES(1,'v',2)`, `{"op":"insert","table":"w","key":{"q":2,"p":1},"after":{"p":1,"v":"v","q":2}}`},
		{`UPDATE w SET v='` + long + `'`, `{"op":"update","table":"w","key":{"q":2,"p":1},"before":{"v":"v"},"after":{"v":"` + long + `"}}`},
		{`UPDATE w SET v=NULL`, `{"op":"update","table":"w","key":{"q":2,"p":1},"before":{"v":"` + long + `"},"after":{"v":null}}`},
		{`UPDATE w SET p=3`, `{"op":"delete","table":"w","key":{"q":2,"p":1},"before":{"p":1,"v":null,"q":2}}
{"op":"insert","table":"w","key":{"q":2,"p":3},"after":{"p":3,"v":null,"q":2}}`},
		{`DELETE FROM w`, `{"op":"delete","table":"w","key":{"q":2,"p":3},"before":{"p":3,"v":null,"q":2}}`},
		{`CREATE TABLE k(v, b INT, a TEXT, PRIMARY KEY(a, b))`, `{"op":"schema","sql":"CREATE TABLE k(v, b INT, a TEXT, PRIMARY KEY(a, b))"}`},
		{`INSERT INTO k VALUES(1, 2, 'x')`, `{"op":"insert","table":"k","key":{"a":"x","b":2},"after":{"v":1,"b":2,"a":"x"}}`},
		{`UPDATE k SET v=5`, `{"op":"update","table":"k","key":{"a":"x","b":2},"before":{"v":1},"after":{"v":5}}`},
		{`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000) INSERT INTO k SELECT 0, i, 'y' FROM n`, "*"},
	} {
		if got := changes(t, l.commit(t, tc.sql)); got != tc.want && tc.want != "*" {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.sql, got, tc.want)
		}
	}
}

// Each value keeps its type, and what JSON has no form for is an object.
func TestAppendJSON(t *testing.T) {
	l := open(t)
	l.commit(t, `CREATE TABLE v(v)`)
	for value, want := range map[string]string{
		"NULL": "null", "1": "1", "-9223372036854775808": "-9223372036854775808", "1.0": "1.0", "-0.0": "-0.0", "1e300": "1e+300", "0.1": "0.1", "1e21": "1e+21", "123456789012345680.0": "1.2345678901234568e+17",
		"9e999": `{"real":"Infinity"}`, "-9e999": `{"real":"-Infinity"}`, "x''": `{"blob":""}`, "x'00ff'": `{"blob":"AP8="}`, "''": `""`,
		`'é"' || char(10, 0, 8232)`: "\"é\\\"\\n\\u0000\u2028\"", "CAST(x'ff41' AS TEXT)": `{"text":"/0E="}`,
	} {
		got := changes(t, l.commit(t, `INSERT INTO v VALUES(`+value+`)`))
		if _, after, _ := strings.Cut(got, `"after":`); after != `{"v":`+want+`}}` {
			t.Errorf("%s: got %s, want %s", value, after, want)
		}
	}
}

// What was undone is not in the event, and what is around it is: of an operation that failed, in a batch with others.
func TestEvent_UndoneChanges(t *testing.T) {
	l := open(t)
	l.commit(t, `CREATE TABLE t(a PRIMARY KEY, b)`, `CREATE TABLE o(a)`, `INSERT INTO t VALUES(1,'one'),(2,'two')`)
	e := l.commit(t, `DELETE FROM t WHERE a=1; INSERT INTO o VALUES(1)`,
		`INSERT INTO o VALUES(2); DELETE FROM t; CREATE TABLE x(y); UPDATE o SET a=5; INSERT INTO missing VALUES(1)`,
		`UPDATE t SET b='2'`, `INSERT INTO t VALUES(2,3)`, `INSERT INTO o VALUES(3)`)
	want := `{"op":"delete","table":"t","key":{"a":1},"before":{"a":1,"b":"one"}}
{"op":"insert","table":"o","key":{"rowid":1},"after":{"a":1}}
{"op":"update","table":"t","key":{"a":2},"before":{"b":"two"},"after":{"b":"2"}}
{"op":"insert","table":"o","key":{"rowid":2},"after":{"a":3}}`
	if got := changes(t, e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A consumer of some tables gets their changes and each schema change, in order, as one object.
func TestEvent_Append_Tables(t *testing.T) {
	l := open(t)
	l.commit(t, `CREATE TABLE A(v)`, `CREATE TABLE b(v)`)
	e := l.commit(t, `INSERT INTO a VALUES(1),(2); INSERT INTO b VALUES(3); INSERT INTO A VALUES(4)`)
	row := func(table string, n, v int) string {
		return fmt.Sprintf(`{"op":"insert","table":"%s","key":{"rowid":%d},"after":{"v":%d}}`, table, n, v)
	}
	for tables, want := range map[string]string{
		"a": row("A", 1, 1) + "\n" + row("A", 2, 2) + "\n" + row("A", 3, 4), "b": row("b", 1, 3),
		"a b": row("A", 1, 1) + "\n" + row("A", 2, 2) + "\n" + row("b", 1, 3) + "\n" + row("A", 3, 4),
	} {
		if got := changes(t, e, strings.Fields(tables)...); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", tables, got, want)
		}
	}
	event, err := rowlog.NewEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	if event.Matches([]string{"c"}) || !event.Matches([]string{"c", "b"}) || !event.Matches(nil) {
		t.Error("the event matches another table, or not its own")
	}
	if event, err = rowlog.NewEvent(l.commit(t, `DROP TABLE b`)); err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(slices.Collect(event.Pieces([]string{"c"}))...)
	head, _ := l.Head(t.Context())
	want := fmt.Sprintf(`{"cluster":"%s","seq":%d,"epoch":1,"time":"2026-11-22T05:00:00.123Z","changes":[{"op":"schema","sql":"DROP TABLE b"}]}`, head.Cluster, head.Seq)
	if !event.Matches([]string{"c"}) || string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// Rows without their part for the feed, or with that of others, are refused: nothing is guessed.
func TestNewEvent_WithoutFeed_IsGone(t *testing.T) {
	l := open(t)
	e := l.commit(t, `INSERT INTO users VALUES('ann','pw'); UPDATE users SET username='b'`)
	for name, alter := range map[string]func(e *dbaas.Entry){
		"none":      func(e *dbaas.Entry) { *e = e.ForReplicas() },
		"too short": func(e *dbaas.Entry) { e.Changes[1].Data = e.Changes[1].Data[:len(e.Changes[1].Data)-1] },
		"too long": func(e *dbaas.Entry) {
			e.Changes[1].Data = append(slices.Clip(e.Changes[1].Data), 0)
		},
		"changeset": func(e *dbaas.Entry) { e.Changes[0].Kind = dbaas.ChangeSet },
		"cut rows":  func(e *dbaas.Entry) { e.Changes[0].Data = e.Changes[0].Data[:9] },
	} {
		other := *e
		other.Changes = append([]dbaas.Change(nil), e.Changes...)
		alter(&other)
		if _, err := rowlog.NewEvent(&other); dbaas.CodeOf(err) != dbaas.CodeGone {
			t.Errorf("%s: got %v, want gone", name, err)
		}
	}
}

// Replicas do not get the parts of the feed.
func TestStore_Log_IsWithoutFeed(t *testing.T) {
	l := open(t)
	l.commit(t, `INSERT INTO users VALUES('ann','pw')`)
	page, err := l.Log(t.Context(), 0, 0)
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("got %d entries, %v", len(page.Entries), err)
	}
	for _, c := range page.Entries[0].Changes {
		if c.Kind == dbaas.ChangeFeed {
			t.Error("a part for the feed is in the page")
		}
	}
}
