package commitlog_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// outcome formats the results of one operation in short: ok, or the code and message of each statement.
func outcome(r dbaas.OperationResult) string {
	if r.Code != dbaas.CodeOK {
		return "refused " + string(r.Code)
	}
	parts := make([]string, len(r.Statements))
	for i, s := range r.Statements {
		parts[i] = "ok"
		if s.Code != dbaas.CodeOK {
			parts[i] = string(s.Code) + ": " + s.Message
		}
	}
	return strings.Join(parts, "; ")
}

var (
	op     = storetest.Op
	atomic = storetest.Atomic
)

const ann, bob = "INSERT INTO users VALUES('ann','x')", "INSERT INTO users VALUES('bob','x')"

// Whatever a batch contains, each operation has its own outcome, and replicas that follow from before the batch and
// from after it have the same rows.
func TestStore_Commit_Outcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		before []string
		batch  []dbaas.Operation
		want   []string
		tables string // row counts afterwards, "table=n ..."
	}{
		"StatementsStandAlone": {
			batch:  []dbaas.Operation{op(1, ann, ann, bob), op(2, "INSERT INTO nope VALUES(1)"), op(3, "nonsense")},
			want:   []string{"ok; constraint: UNIQUE constraint failed: users.username; ok", "invalid: no such table: nope", `invalid: near "nonsense": syntax error`},
			tables: "users=2",
		},
		"AtomicIsAllOrNothing": {
			batch:  []dbaas.Operation{op(1, ann), atomic(2, bob, ann, "INSERT INTO users VALUES('cid','x')"), atomic(3, bob, "UPDATE users SET password='y'")},
			want:   []string{"ok", "ok; constraint: UNIQUE constraint failed: users.username", "ok; ok"},
			tables: "users=2",
		},
		"RollbackOfOneHurtsNobody": {
			batch: []dbaas.Operation{
				op(1, ann), op(2, bob, "INSERT OR ROLLBACK INTO users VALUES('ann','x')", "INSERT INTO users VALUES('cid','x')"),
				atomic(3, "INSERT INTO users VALUES('dan','x')", "INSERT OR ROLLBACK INTO users VALUES('ann','x')"), op(4, "INSERT INTO users VALUES('eve','x')"),
			},
			want:   []string{"ok", "ok; constraint: UNIQUE constraint failed: users.username; ok", "ok; constraint: UNIQUE constraint failed: users.username", "ok"},
			tables: "users=4",
		},
		"DeferredForeignKeys": {
			before: []string{"CREATE TABLE c(id INTEGER PRIMARY KEY, u TEXT REFERENCES users DEFERRABLE INITIALLY DEFERRED)"},
			batch: []dbaas.Operation{
				op(1, ann), op(2, "INSERT INTO c VALUES(1,'bob')"), atomic(3, "INSERT INTO c VALUES(2,'cid')", "UPDATE users SET password='z'"),
				atomic(4, "INSERT INTO c VALUES(3,'bob')", bob), op(5, "INSERT INTO c VALUES(4,'ann')"),
			},
			want:   []string{"ok", "constraint: FOREIGN KEY constraint failed", "ok; constraint: FOREIGN KEY constraint failed", "ok; ok", "ok"},
			tables: "users=2 c=2",
		},
		"SchemaBetweenRows": {
			batch: []dbaas.Operation{
				op(1, ann), op(2, "CREATE TABLE n(id INTEGER PRIMARY KEY, v TEXT)"), op(3, "INSERT INTO n(v) VALUES('a'),('b')"),
				op(4, "ALTER TABLE n ADD COLUMN w TEXT NOT NULL DEFAULT 'd' CHECK(w<>'')"), op(5, "INSERT INTO n(v,w) VALUES('c','e')", "CREATE UNIQUE INDEX n_v ON n(v)"),
				op(6, "INSERT INTO n(v) VALUES('a')"), op(7, "ALTER TABLE n RENAME COLUMN v TO vv"), op(8, "ALTER TABLE n RENAME TO nn", "UPDATE nn SET vv=vv||'!'"), op(9, bob),
				op(10, "ALTER TABLE nn DROP COLUMN w"), op(11, "CREATE VIEW names AS SELECT vv FROM nn", "SELECT * FROM names"),
			},
			want:   []string{"ok", "ok", "ok", "ok", "ok; ok", "constraint: UNIQUE constraint failed: n.v", "ok", "ok; ok", "ok", "ok", "ok; ok"},
			tables: "users=2 nn=3",
		},
		"SchemaInAtomicOperation": {
			batch: []dbaas.Operation{
				op(1, ann), atomic(2, bob, "CREATE TABLE a(id INTEGER PRIMARY KEY)", "INSERT INTO a VALUES(1)", ann),
				op(3, "CREATE TABLE a(id INTEGER PRIMARY KEY, other)"), atomic(4, bob, "CREATE TABLE b(id INTEGER PRIMARY KEY)", "INSERT INTO b VALUES(1)", "UPDATE users SET password='q'"),
				op(5, "INSERT INTO a VALUES(5,6)"),
			},
			want:   []string{"ok", "ok; ok; ok; constraint: UNIQUE constraint failed: users.username", "ok", "ok; ok; ok; ok", "ok"},
			tables: "users=2 a=1 b=1",
		},
		"SchemaThatCannotBeReplicated": {
			batch: []dbaas.Operation{
				op(1, ann, "CREATE TABLE a(rowid, oid, _rowid_)", bob), op(2, "DROP TABLE users"), op(3, "CREATE TRIGGER g AFTER INSERT ON users BEGIN SELECT 1; END"),
				atomic(4, "UPDATE users SET password='lost'", "CREATE TABLE a(rowid, oid, _rowid_)"), op(5, "CREATE TABLE a AS SELECT 1"), op(6, "CREATE VIRTUAL TABLE a USING fts5(x)"),
				op(7, "CREATE TABLE mine(x)", "ALTER TABLE mine RENAME TO rs_mine"), op(8, "CREATE TABLE a(x INTEGER PRIMARY KEY REFERENCES rs_log)"),
				op(9, "CREATE TABLE a(x TEXT NOT NULL, y INT NOT NULL, PRIMARY KEY(x,y))"), op(10, "CREATE TABLE b(x TEXT PRIMARY KEY) WITHOUT ROWID"),
				op(11, "INSERT INTO a VALUES(1,2)", "INSERT INTO b VALUES(1)"),
				op(21, "CREATE TABLE k(c, a, b, PRIMARY KEY(a, a COLLATE NOCASE, b)) WITHOUT ROWID"), op(22, "CREATE TABLE k(c, a, b, PRIMARY KEY(a, a, b))"),
				op(23, "CREATE TABLE w("+columns(2000)+")"), op(24, "CREATE VIEW v AS SELECT 'rs_none' AS rs_x, * FROM Rs_Sums"),
				op(25, "ALTER TABLE a ADD CHECK(changes()=2)"), op(26, "ALTER TABLE a ADD CONSTRAINT x CHECK(random()<>x)"), op(27, "ALTER TABLE a ADD CHECK(sqlite_version()>x)"),
				op(12, "DROP INDEX rides_route"), op(13, "CREATE INDEX rides_seats ON rides(seats)", "CREATE UNIQUE INDEX one_ride ON rides(created_by)",
					"CREATE INDEX failing ON rides(CASE WHEN rideId<=1000 THEN 1 ELSE json('x') END)", "CREATE INDEX some ON rides(seats) WHERE json(seats)>0", "CREATE INDEX fine ON rides(seats DESC, timestamp COLLATE NOCASE)"), op(14, "ALTER TABLE rides DROP COLUMN seats"),
			},
			want: []string{
				"ok; invalid: table a needs a PRIMARY KEY, its column _rowid_ hides the row id; ok",
				"invalid: users belongs to the application and cannot be altered or dropped",
				"invalid: users belongs to the application and cannot be altered or dropped",
				"ok; invalid: table a needs a PRIMARY KEY, its column _rowid_ hides the row id",
				"invalid: CREATE TABLE AS SELECT is not supported, create the table and then insert",
				"invalid: virtual tables are not supported, they cannot be replicated",
				"ok; invalid: names that begin with rs_ are reserved", "invalid: no such table: rs_log", "ok", "ok", "ok; ok",
				"invalid: table k names a column twice in its PRIMARY KEY", "invalid: table k names a column twice in its PRIMARY KEY",
				"invalid: table w has too many columns, at most 1999 are possible", "invalid: v refers to Rs_Sums, which belongs to the system",
				"invalid: a CHECK that ALTER TABLE adds cannot call changes(), whose result may be different on a replica",
				"invalid: a CHECK that ALTER TABLE adds cannot call random(), whose result may be different on a replica",
				"invalid: a CHECK that ALTER TABLE adds cannot call sqlite_version(), whose result may be different on a replica",
				"invalid: rides_route belongs to the application and cannot be altered or dropped", "ok; invalid: rides belongs to the application and cannot have another index that is UNIQUE, partial or on an expression; invalid: rides belongs to the application and cannot have another index that is UNIQUE, partial or on an expression; invalid: rides belongs to the application and cannot have another index that is UNIQUE, partial or on an expression; ok",
				"invalid: rides belongs to the application and cannot be altered or dropped",
			},
			tables: "users=2 a=1 b=1",
		},
		"AlteredConstraints": {
			before: []string{"CREATE TABLE t(a, b)", "INSERT INTO t VALUES(1,2),(3,4)"},
			batch: []dbaas.Operation{
				op(1, "UPDATE t SET a=a", "ALTER TABLE t ALTER b SET NOT NULL", "ALTER TABLE t ADD CONSTRAINT small CHECK(length(a)<3)", "INSERT INTO t VALUES(7,NULL)"),
				op(2, "ALTER TABLE t ALTER b DROP NOT NULL", "INSERT INTO t VALUES(7,NULL)", "INSERT INTO t VALUES(1000,1)", "ALTER TABLE t DROP CONSTRAINT small", "INSERT INTO t VALUES(1000,1)"),
			},
			want:   []string{"ok; ok; ok; constraint: NOT NULL constraint failed: t.b", "ok; ok; constraint: CHECK constraint failed: small; ok; ok"},
			tables: "t=4",
		},
		"NullKeyByDrop": {
			before: []string{"CREATE TABLE p(id INTEGER PRIMARY KEY)", "INSERT INTO p VALUES(1)", "CREATE TABLE c(k TEXT PRIMARY KEY REFERENCES p ON DELETE SET NULL)", "INSERT INTO c VALUES(1)"},
			batch:  []dbaas.Operation{op(1, ann, "DROP TABLE p", bob), atomic(2, "DROP TABLE p", "DROP TABLE c"), op(3, "SELECT 1; DROP TABLE p"), op(4, "DROP TABLE c", "DROP TABLE p")},
			want:   []string{"ok; constraint: NOT NULL constraint failed: c.k; ok", "constraint: NOT NULL constraint failed: c.k", "constraint: NOT NULL constraint failed: c.k", "ok; ok"},
			tables: "users=2",
		},
		"CountersThatOnlyMove": {
			before: []string{"CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO t VALUES(5)"},
			batch:  []dbaas.Operation{op(1, "DROP TABLE t", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO sqlite_sequence(name, seq) VALUES('t', 5)"), op(2, ann)},
			want:   []string{"ok; ok; ok", "ok"},
			tables: "users=1 sqlite_sequence=1",
		},
		"ColumnWithoutAName": {
			before: []string{`CREATE TABLE t("", b)`, `CREATE TABLE u("" INTEGER PRIMARY KEY, b)`},
			batch:  []dbaas.Operation{op(1, "INSERT INTO t VALUES(1,2)", "INSERT INTO u VALUES(1,2)", `UPDATE t SET ""=3`, `UPDATE u SET "" = 4`)},
			want:   []string{"ok; ok; ok; ok"},
			tables: "t=1 u=1",
		},
		"DropOfParentCascades": {
			before: []string{"CREATE TABLE p(id INTEGER PRIMARY KEY)", "CREATE TABLE k(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE)", "INSERT INTO p VALUES(1),(2)", "INSERT INTO k VALUES(7,1),(8,NULL)"},
			batch:  []dbaas.Operation{op(1, "INSERT INTO k VALUES(9,2)"), op(2, "DROP TABLE p"), op(3, "CREATE TABLE p(id INTEGER PRIMARY KEY, more)"), op(4, "INSERT INTO p VALUES(5,6)", "INSERT INTO k VALUES(1,5)")},
			want:   []string{"ok", "ok", "ok", "ok; ok"},
			tables: "p=1 k=2",
		},
		"TriggersCascadesReplaceUpsert": {
			before: []string{
				ann, bob, "CREATE TABLE people(username TEXT NOT NULL PRIMARY KEY, password)", "INSERT INTO people SELECT * FROM users", "CREATE TABLE audit(id INTEGER PRIMARY KEY, what, at DEFAULT (datetime('now')), r DEFAULT (random()))",
				"CREATE TRIGGER au AFTER UPDATE ON people BEGIN INSERT INTO audit(what) VALUES(old.username||'>'||new.username); END",
				"CREATE TRIGGER ad AFTER DELETE ON people BEGIN INSERT INTO audit(what) VALUES(old.username); END",
				"INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','t',1,2),('bob','t',3,4)", "INSERT INTO riders VALUES(1,'bob'),(2,'ann')",
			},
			batch: []dbaas.Operation{
				op(1, "UPDATE users SET username='zoe' WHERE username='ann'", "UPDATE people SET username='zoe' WHERE username='ann'"), op(2, "INSERT OR REPLACE INTO users VALUES('bob','new')"),
				op(3, "INSERT INTO apicount VALUES('users',1) ON CONFLICT(service_name) DO UPDATE SET count=count+excluded.count", "INSERT INTO apicount VALUES('users',5) ON CONFLICT(service_name) DO UPDATE SET count=count+excluded.count"),
				op(4, "DELETE FROM users WHERE username='zoe'", "DELETE FROM people WHERE username='zoe'"), op(5, "INSERT INTO users SELECT 'u'||what, r FROM audit"), op(6, "DELETE FROM sqlite_sequence WHERE name='rides'"),
			},
			want:   []string{"ok; ok", "ok", "ok; ok", "ok; ok", "ok", "ok"},
			tables: "riders=0 rides=0 apicount=1 audit=2 users=3",
		},
		"WhatIsNotAllowed": {
			batch: []dbaas.Operation{
				op(1, ann), op(2, "COMMIT"), op(3, "ROLLBACK"), op(4, "VACUUM"), op(5, "PRAGMA foreign_keys=0"), op(6, bob+"; DROP TABLE users"), op(7, "DELETE FROM rs_log"), op(8, "SELECT * FROM rs_epoch"),
				op(9, "SELECT count(*) FROM users", "EXPLAIN DELETE FROM users"),
			},
			want: []string{
				"ok", "invalid: BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction",
				"invalid: BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction",
				"invalid: VACUUM is not supported", "invalid: PRAGMA foreign_keys cannot be set", "invalid: users belongs to the application and cannot be altered or dropped",
				"invalid: no such table: rs_log", "invalid: no such table: rs_epoch", "ok; ok",
			},
			tables: "users=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			epoch := storetest.Claim(t, s)
			early := storetest.NewReplica(t, s)
			if len(tc.before) > 0 {
				r := storetest.Commit(t, s, epoch, op(1000, tc.before...)).Results[0]
				if got := outcome(r); strings.Contains(got, ":") {
					t.Fatalf("preparation: %s", got)
				}
			}
			middle := storetest.NewReplica(t, s)
			c := storetest.Commit(t, s, epoch, tc.batch...)
			for i, r := range c.Results {
				if got := outcome(r); got != tc.want[i] {
					t.Errorf("operation %d:\ngot  %s\nwant %s", i+1, got, tc.want[i])
				}
			}
			for _, r := range []*storetest.Replica{early, middle, storetest.NewReplica(t, s)} {
				r.Follow(t, s)
				for want := range strings.FieldsSeq(tc.tables) {
					table, n, _ := strings.Cut(want, "=")
					if got := fmt.Sprint(count(t, r, table)); got != n {
						t.Errorf("got %s rows in %s, want %s", got, table, n)
					}
				}
			}
		})
	}
}

// columns returns the definitions of n columns.
func columns(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	return strings.Join(names, ",")
}

func count(t *testing.T, r *storetest.Replica, table string) int {
	t.Helper()
	b, err := r.Conn.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: "SELECT count(*) AS n FROM " + table}}}, replication.ReadGuard)
	if err != nil {
		t.Fatal(err)
	}
	n := -1
	if _, err := fmt.Sscanf(string(b), `[{"n":%d}]`, &n); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return n
}

const endless = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n)"

// A statement that runs too long fails alone, even if it writes, and stays failed when it is repeated.
func TestStore_Commit_SlowStatementFailsAlone(t *testing.T) {
	s := open(t, commitlog.Config{StatementLimit: 500 * time.Millisecond})
	epoch := storetest.Claim(t, s)
	batch := []dbaas.Operation{op(1, ann), op(2, "INSERT INTO apicount SELECT 'n'||i, i FROM "+endless), op(3, "SELECT count(*) FROM "+endless), op(4, bob)}
	c := storetest.Commit(t, s, epoch, batch...)
	slow := "timeout: execute timeout"
	for i, want := range []string{"ok", slow, slow, "ok"} {
		if got := outcome(c.Results[i]); got != want {
			t.Errorf("operation %d: got %s, want %s", i+1, got, want)
		}
	}
	if again := storetest.Commit(t, s, epoch, batch...); again.Entry != nil {
		t.Error("the second delivery ran again")
	}
	storetest.NewReplica(t, s).Follow(t, s)
}

// An operation with very many failures, each of which makes the batch run again, does not hold up its neighbours: it is
// refused, and has its result when it comes alone.
func TestStore_Commit_ManyRollbacks(t *testing.T) {
	statements := []string{ann, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 100) SELECT count(*) FROM n"}
	const failures = 400
	for range failures {
		statements = append(statements, "INSERT OR ROLLBACK INTO users VALUES('ann','y')")
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := reopen(t, commitlog.Config{Dir: dir, SharedLimit: 50 * time.Millisecond})
		epoch := storetest.Claim(t, s)
		s.Pace(func() { time.Sleep(2 * time.Millisecond) }) // nothing else takes time here: a round takes some 30 ms
		began := time.Now()
		c := storetest.Commit(t, s, epoch, op(1, statements...), op(2, bob))
		if got := outcome(c.Results[0]) + ", " + outcome(c.Results[1]); got != "refused slow, ok" || time.Since(began) > time.Second {
			t.Errorf("after %v: got %.60s, want refused slow, ok", time.Since(began), got)
		}
		c = storetest.Commit(t, s, epoch, op(1, statements...))
		if got, want := outcome(c.Results[0]), "ok; ok"+strings.Repeat("; constraint: UNIQUE constraint failed: users.username", failures); got != want {
			t.Errorf("alone: got %.60s, want %.60s", got, want)
		}
		storetest.NewReplica(t, s).Follow(t, s)
		closeStore(t, s)
	})
}

// An operation that is too large is refused permanently if it is alone, and deferred if it came with others.
func TestStore_Commit_TooLarge(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	s.SetSizes(10_000, 3_000, 2_000)
	big := func(n, size int) dbaas.Operation {
		return op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d', hex(zeroblob(%d)))", n, size/2))
	}
	rows := func(n, size int) dbaas.Operation { return op(n, fmt.Sprintf("SELECT hex(zeroblob(%d))", size/2)) }
	// The third statement would be stopped only by its own time limit.
	many := func(n int, sql string) dbaas.Operation {
		return op(n, sql, sql, "SELECT count(*) FROM "+endless)
	}
	for name, tc := range map[string]struct {
		batch []dbaas.Operation
		want  []string
	}{
		"Alone":        {[]dbaas.Operation{big(1, 20_000)}, []string{"refused too_large"}},
		"FirstOfAll":   {[]dbaas.Operation{big(11, 20_000), big(12, 100)}, []string{"refused too_large", "ok"}},
		"Together":     {[]dbaas.Operation{big(21, 4_000), big(22, 4_000), big(23, 4_000), big(24, 10)}, []string{"ok", "ok", "refused again", "refused again"}},
		"ThenAlone":    {[]dbaas.Operation{big(31, 10), big(32, 20_000), big(33, 10)}, []string{"ok", "refused again", "refused again"}},
		"ManyRows":     {[]dbaas.Operation{many(51, "SELECT hex(zeroblob(950))"), big(52, 10)}, []string{"refused too_large", "ok"}},
		"ManyNames":    {[]dbaas.Operation{many(61, "SELECT 1 AS "+strings.Repeat("n", 1_900)), big(62, 10)}, []string{"refused too_large", "ok"}},
		"ManyColumns":  {[]dbaas.Operation{many(81, "SELECT 1 a"+strings.Repeat(",1 a", 49)), big(82, 10)}, []string{"refused too_large", "ok"}},
		"ManyFailures": {[]dbaas.Operation{big(71, 10), many(72, "SELECT "+strings.Repeat("n", 1_900))}, []string{"ok", "refused again"}},
		"Rows":         {[]dbaas.Operation{rows(41, 1_500), rows(42, 2_500), rows(43, 1_900)}, []string{"ok", "too_large: the answer is over the limit of 2000 bytes", "refused again"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := storetest.Commit(t, s, epoch, tc.batch...)
			for i, want := range tc.want {
				if got := outcome(c.Results[i]); got != want {
					t.Errorf("operation %d: got %s, want %s", i, got, want)
				}
			}
		})
	}
	storetest.NewReplica(t, s).Follow(t, s)
}
