package sqlite_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

const (
	tooMuch = "the statement needs more than 128 MiB"
	tooLong = "interrupted: the statement took too long"
	tooBig  = "string or blob too big"
	numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
	wide    = "replace(hex(zeroblob(10000000)),'00','aa')" // a text of 20 MB
)

// nested is views, each of which reads the one before ten times.
func nested() []string {
	list := []string{"CREATE VIEW v0 AS SELECT 1 AS a UNION ALL SELECT 2"}
	for i := range 12 {
		list = append(list, fmt.Sprintf("CREATE VIEW v%d AS SELECT x.a FROM v%d x%s", i+1, i, strings.Repeat(fmt.Sprintf(" JOIN v%d", i), 9)))
	}
	return list
}

// hostile is statements that ask for more than one client may have, and how each ends. "" is an answer.
func hostile() map[string]string {
	return map[string]string{
		numbers + " SELECT count(*) FROM n":                                                                                                       tooLong,
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i+1 FROM n) SELECT count(*) FROM n":                                                        tooMuch + " or " + tooLong,
		"SELECT count(*) FROM big a, big b, big c":                                                                                                tooLong,
		"SELECT randomblob(1000000000)":                                                                                                           tooBig,
		"SELECT length(hex(zeroblob(64000000)))":                                                                                                  tooBig,
		numbers + " SELECT i, hex(randomblob(500)) h FROM n ORDER BY h":                                                                           tooMuch + " or " + tooLong,
		numbers + " SELECT group_concat(i, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxx') FROM n":                                                                tooBig + " or " + tooLong,
		numbers + " SELECT json_group_array(hex(zeroblob(10000))) FROM n":                                                                         tooMuch + " or " + tooBig + " or " + tooLong,
		"SELECT instr(" + wide + ", substr(" + wide + ",1,10000000)||'b')":                                                                        tooLong,
		"SELECT length(trim(" + wide + ", substr(" + wide + ",1,10000000)||'é'))":                                                                 "",
		"SELECT length(trim(" + wide + ", replace(hex(zeroblob(1000000)),'00','é')||'a'))":                                                        tooLong,
		"SELECT sum(length(x.a)) FROM (SELECT hex(zeroblob(15000000)) a) x, big b, big c":                                                         tooLong,
		"SELECT max(x.a||x.a) FROM (SELECT " + wide + " a) x, big b, big c":                                                                       tooLong + " or " + tooMuch,
		"SELECT length(group_concat(hex(zeroblob(100000)), '') OVER (ORDER BY b.i ROWS BETWEEN 300 PRECEDING AND CURRENT ROW)) FROM big b, big c": tooMuch + " or " + tooLong + " or " + tooBig,
		"SELECT printf('%.*c', 1000000000, 'x')":                                                                                                  tooBig + " or " + tooLong,
		"SELECT " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000):                                                             "parser stack overflow or Expression tree is too large (maximum depth 1000) or Recursion limit",
		"SELECT 1" + strings.Repeat(" UNION SELECT 1", 10_000):                                                                                    "too many terms in compound SELECT",
		"SELECT count(*) FROM v12":                                                                                                                tooLong + " or " + tooMuch + " or too many references to",
		"SELECT 1 IN (1" + strings.Repeat(",1", 4_000_000) + ")":                                                                                  tooMuch + " or " + tooLong,
		"SELECT 1 /*" + strings.Repeat("x", 9<<20) + "*/":                                                                                         "statement too long",
		"SELECT ?32767": "variable number must be between ?1 and ?32766",
		"SELECT " + strings.Repeat("?,", 32_766) + "?":                                                          "too many SQL variables",
		"SELECT " + strings.Repeat("1+", 1_000) + "1":                                                           "Expression tree is too large (maximum depth 1000)",
		"SELECT " + columns(30, "hex(zeroblob(30000000))"):                                                      tooMuch + " or " + tooLong,
		"SELECT " + columns(2000, "length(hex(zeroblob(30000000)))"):                                            tooLong + " or " + tooMuch,
		"SELECT " + columns(1000, "zeroblob(60000000)"):                                                         "the answer is over the limit of 67108864 bytes or " + tooMuch,
		"SELECT replace(hex(zeroblob(50000)),'00','a') LIKE '%'||replace(hex(zeroblob(20000)),'00','a')||'b'":   tooLong,
		"SELECT replace(hex(zeroblob(5000000)),'00','a') GLOB '*'||replace(hex(zeroblob(20000)),'00','a')||'b'": tooLong,
		"SELECT replace(hex(zeroblob(150000)),'0','b') GLOB '*['||replace(hex(zeroblob(24000)),'0','a')||']c'":  tooLong,
		"SELECT length(replace(" + wide + ", substr(" + wide + ",1,10000000)||'b', 'c'))":                       tooLong,
		"SELECT unhex(replace(hex(zeroblob(1000000)),'00','é'), replace(hex(zeroblob(1000000)),'00','ä')||'é')": tooLong,
	}
}

func columns(n int, expr string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s a%d", expr, i)
	}
	return strings.Join(list, ",")
}

// hostileFile is a database with the data that the hostile statements read.
func hostileFile(t *testing.T, o sqlite.Options) (*sqlite.Conn, string) {
	t.Helper()
	w, path := sqlitetest.Open(t, o)
	sqlitetest.Exec(t, w, "CREATE TABLE big(i INTEGER PRIMARY KEY, t TEXT)", "CREATE TABLE log(i INTEGER PRIMARY KEY)",
		"CREATE TABLE r(i INTEGER PRIMARY KEY)", "CREATE TRIGGER again AFTER INSERT ON r BEGIN INSERT INTO r SELECT new.i+1 WHERE new.i<1000000; END",
		"INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 10000) SELECT i, 'text '||i FROM n")
	sqlitetest.Exec(t, w, nested()...)
	return w, path
}

// timeFor is the time limit of a statement that ends with want: on a busy machine only an endless one may meet it.
func timeFor(want string) time.Duration {
	switch {
	case want == tooLong:
		return 300 * time.Millisecond
	case strings.Contains(want, tooLong):
		return 2 * time.Second
	default:
		return 5 * time.Second
	}
}

// A statement that exceeds its limits fails alone, in time and within its memory. The statements next to it get their
// answers, and all of them see one state.
func TestConn_AppendRead_HostileStatements(t *testing.T) {
	w, path := hostileFile(t, sqlite.Options{})
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	for sql, want := range hostile() {
		limit := timeFor(want)
		if err := c.Begin(); err != nil {
			t.Fatal(err)
		}
		before := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT count(*) FROM log")})
		sqlitetest.Exec(t, w, "INSERT INTO log DEFAULT VALUES")
		r := dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT 7", sql, "SELECT count(*) FROM log"), Deadline: time.Now().Add(limit)}
		began := time.Now()
		b, err := c.AppendRead(nil, &r, replication.ReadGuard)
		took := time.Since(began)
		ends(t, sql, want, string(b), err)
		if took > limit+slack {
			t.Errorf("%.80s: took %s", sql, took)
		}
		after := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT count(*) FROM log")})
		if before != after {
			t.Errorf("%.80s: the state changed from %s to %s", sql, before, after)
		}
		if err == nil && (!strings.Contains(string(b), `[[7]]`) || !strings.HasSuffix(string(b), strings.TrimPrefix(before, "["))) {
			t.Errorf("%.80s: its neighbours answered %.200s, then %.200s", sql, b, b[max(0, len(b)-100):])
		}
		if err = c.End(); err != nil {
			t.Fatal(err)
		}
	}
	if high := sqlite.HighWater(c); high > 166<<20 {
		t.Errorf("a statement held %d MiB", high>>20)
	}
}

// ends checks how a statement ended; want may have several texts.
func ends(t *testing.T, sql, want, body string, err error) {
	t.Helper()
	got := body
	if err != nil {
		got = err.Error()
	}
	if slow && strings.Contains(got, tooLong) {
		return
	}
	for text := range strings.SplitSeq(want, " or ") {
		if strings.Contains(got, text) && (text == "" || err != nil || strings.Contains(got, `"error":`)) {
			return
		}
	}
	t.Errorf("%.80s: got %.200s, want %s", sql, got, want)
}

// The same holds for a writer: it keeps the earlier changes of its transaction or loses all of them, and stays fully
// usable.
func TestStmt_Run_HostileStatements(t *testing.T) {
	c, _ := hostileFile(t, sqlite.Options{Triggers: true})
	list := hostile()
	list["INSERT INTO r VALUES(1)"] = "" // a trigger does not fire itself
	list["INSERT INTO big "+numbers+" SELECT NULL, hex(zeroblob(10000)) FROM n"] = tooLong
	for sql, want := range list {
		limit := timeFor(want)
		if err := c.BeginWrite(); err != nil {
			t.Fatal(err)
		}
		sqlitetest.Exec(t, c, "INSERT INTO log DEFAULT VALUES", "SAVEPOINT op")
		began := time.Now()
		var r dbaas.StatementResult
		err := c.Until(began.Add(limit), func() (err error) {
			r, err = runAll(c, sql)
			return err
		})
		if took := time.Since(began); took > limit+slack {
			t.Errorf("%.80s: took %s", sql, took)
		}
		ends(t, sql, strings.Replace(want, "67108864", "33554432", 1), fmt.Sprint(r), err)
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM log)")}); !strings.Contains(got, "[[10000,0]]") {
			t.Fatalf("%.80s: left %s", sql, got)
		}
	}
	if high := sqlite.HighWater(c); high > 166<<20 {
		t.Errorf("a statement held %d MiB", high>>20)
	}
}

func runAll(c *sqlite.Conn, sql string) (dbaas.StatementResult, error) {
	s, err := c.Prepare(sql, writes)
	if err != nil {
		return dbaas.StatementResult{}, err
	}
	return s.Run(&dbaas.Statement{SQL: sql}, 32<<20)
}

// Whatever allocation of a statement fails, the error is the statement's own, and the connection and its file are as good as new.
func TestStmt_Run_EachAllocationMayFail(t *testing.T) {
	for _, sql := range []string{
		"SELECT count(*), group_concat(t) FROM (SELECT t FROM big ORDER BY t DESC LIMIT 50)",
		"INSERT INTO big SELECT i+100000, t||t FROM big WHERE i<=20",
		"UPDATE big SET t=t||printf('%2000c', 'x') WHERE i%100=0",
		"INSERT OR REPLACE INTO uniq SELECT i%7, t FROM big LIMIT 20",
		"CREATE TABLE made(i INTEGER PRIMARY KEY, t TEXT UNIQUE, CHECK(length(t)>2))",
		"DELETE FROM big WHERE t LIKE '%9'",
	} {
		t.Run(sql[:6], func(t *testing.T) {
			for n, failed := 0, true; failed; n += further(n) {
				c, path := hostileFile(t, sqlite.Options{})
				sqlitetest.Exec(t, c, "CREATE TABLE uniq(i INTEGER PRIMARY KEY, t TEXT UNIQUE)")
				sqlite.FailAbove(c, int64(n))
				if err := c.BeginWrite(); err != nil {
					t.Fatal(err)
				}
				sqlitetest.Exec(t, c, "INSERT INTO log DEFAULT VALUES")
				_, err := runAll(c, sql)
				if failed = err != nil; failed && (dbaas.CodeOf(err) != dbaas.CodeTooLarge || err.Error() != "the statement needs more than 1 MiB") {
					t.Fatalf("above %d: %v", n, err)
				}
				sqlite.FailAbove(c, 1<<30)
				if !c.InTransaction() {
					sqlitetest.Exec(t, c, "BEGIN IMMEDIATE")
				}
				if _, err = runAll(c, sql); err != nil && failed {
					t.Fatalf("above %d, again: %v", n, err)
				}
				if err = c.Commit(); err != nil {
					t.Fatal(err)
				}
				ok := sqlitetest.OpenAt(t, path, sqlite.Options{})
				if err = ok.Query("PRAGMA integrity_check", func(r sqlite.Row) error {
					if r.Text(0) != "ok" {
						t.Fatalf("above %d: %s", n, r.Text(0))
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// further is how far the next limit of memory is from n; every one takes a new file.
func further(n int) int {
	if slow {
		return 8<<10 + n/2
	}
	return 512 + n/8
}

// The largest statement of the process ends when all together hold too much; the others go on.
func TestLimits_MemoryAll_LargestEnds(t *testing.T) {
	_, path := hostileFile(t, sqlite.Options{})
	begin := func(bytes int64) (*sqlite.Stmt, error) {
		c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true, Limits: sqlite.Limits{Memory: 10 << 20, MemoryAll: 3000 << 10}})
		s, err := c.Prepare("SELECT i, randomblob(?) FROM big LIMIT 3", replication.ReadGuard)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sqlite.Next(s, true, bytes)
		return s, err
	}
	var list []*sqlite.Stmt
	for i, kib := range []int64{500, 1400, 1200} {
		s, err := begin(kib << 10)
		if err != nil {
			t.Fatalf("statement %d: %v", i, err)
		}
		list = append(list, s)
	}
	for i, s := range list {
		more, err := sqlite.Next(s, false, 0)
		if i == 1 {
			if dbaas.CodeOf(err) != dbaas.CodeUnavailable || err.Error() != "all statements together need more than 3 MiB at the moment; try again" {
				t.Errorf("the largest: %v, %v", more, err)
			}
		} else if err != nil || !more {
			t.Errorf("statement %d: %v, %v", i, more, err)
		}
		sqlite.Reset(s)
	}
	if s, err := begin(2900 << 10); err != nil { // all that the others held has been given back
		t.Error(err)
	} else {
		sqlite.Reset(s)
	}
	if _, err := begin(3100 << 10); dbaas.CodeOf(err) != dbaas.CodeTooLarge { // by itself it will never pass
		t.Errorf("one statement with more than all may have: %v", err)
	}
}

// A statement is stopped while it is prepared, too.
func TestConn_Within_EndsPreparing(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{Limits: sqlite.Limits{Memory: 4 << 30, MemoryAll: 8 << 30}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.Within(ctx, func() error {
		_, err := c.Prepare("SELECT 1 IN (1"+strings.Repeat(",1", 4_000_000)+")", replication.ReadGuard)
		return err
	})
	if dbaas.CodeOf(err) != dbaas.CodeTimeout || err.Error() != tooLong {
		t.Errorf("got %v", err)
	}
}

// What a statement sorts in temporary files counts as its memory does, and is given back.
func TestLimits_TemporaryFilesCount(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{Limits: sqlite.Limits{Memory: 48 << 20}})
	sorted := func(rows int) error {
		_, err := runAll(c, fmt.Sprintf("%s SELECT count(*) FROM (SELECT i FROM n ORDER BY hex(randomblob(500)) LIMIT -1 OFFSET 1) WHERE i>0", strings.Replace(numbers, "n)", fmt.Sprintf("n LIMIT %d)", rows), 1)))
		return err
	}
	for range 2 {
		if err := sorted(9_000); err != nil { // 9 MB, more than is sorted in memory
			t.Fatal(err)
		}
		if err := sorted(80_000); dbaas.CodeOf(err) != dbaas.CodeTooLarge || err.Error() != "the statement needs more than 48 MiB" {
			t.Fatalf("got %v", err)
		}
	}
}
