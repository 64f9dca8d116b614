package commitlog_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/sqlgen"
)

const (
	// anySeedEnv repeats one script; anyRunsEnv says how many scripts there are.
	anySeedEnv = "RIDESHARE_ANYSQL_SEED"
	anyRunsEnv = "RIDESHARE_ANYSQL_RUNS"
)

// Whatever SQL clients send, in whatever batches, with repeated operations, restarts, trimmed logs and new masters:
// each answer is that of plain SQLite running one operation after another, and the rows, rowids, counters and schema of
// every replica are those of the store and of plain SQLite.
func TestStore_AnySQL_LikePlainSQLite(t *testing.T) {
	if one := os.Getenv(anySeedEnv); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", anySeedEnv, err)
		}
		runScript(t, sqlgen.Make(seed))
		return
	}
	first := uint64(time.Now().UnixNano())
	for i := range anyRuns(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			runScript(t, sqlgen.Make(first+uint64(i)))
		})
	}
}

func anyRuns(t *testing.T) int {
	t.Helper()
	if s := os.Getenv(anyRunsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", anyRunsEnv, err)
		}
		return n
	}
	if testing.Short() {
		return 50
	}
	return 500
}

// runScript plays one script; if it fails it looks for a smaller one that fails as well.
func runScript(t *testing.T, s sqlgen.Script) {
	t.Helper()
	err := play(t.Context(), s)
	if err == nil {
		return
	}
	small := sqlgen.Shrink(s, func(s sqlgen.Script) bool { return play(t.Context(), s) != nil })
	t.Errorf("seed %d: %v\nthe smallest script that fails: %v\n%sto repeat it: %s=%d go test ./persdb/commitlog -run %s",
		s.Seed, err, play(t.Context(), small), small.String(), anySeedEnv, s.Seed, "TestStore_AnySQL_LikePlainSQLite")
}

// script returns a script of one batch for each list of texts, each text an operation of its own.
func script(batches ...[]string) sqlgen.Script {
	var s sqlgen.Script
	n := 0
	for _, list := range batches {
		var b sqlgen.Batch
		for _, sql := range list {
			b.Operations = append(b.Operations, runAtomic(n, sql))
			n++
		}
		s.Batches = append(s.Batches, b)
	}
	return s
}

// runAtomic returns operation n, which is atomic if it has several statements.
func runAtomic(n int, texts ...string) sqlgen.Operation {
	o := sqlgen.Operation{Number: n, Atomic: len(texts) > 1}
	for _, sql := range texts {
		st := sqlgen.Statement{}
		st.SQL = sql
		if verb, _, _ := strings.Cut(sql, " "); slices.Contains([]string{"CREATE", "DROP", "ALTER"}, verb) {
			st.Kind = sqlgen.Schema
		}
		o.Statements = append(o.Statements, st)
	}
	return o
}

// comesAgain is an operation without effect that a broker redelivers after a change that would give it an effect.
func comesAgain(change string, texts ...string) sqlgen.Script {
	s := script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY, v)"}, []string{"INSERT INTO x VALUES(1, -9223372036854775807-1)"}, nil, []string{change}, nil)
	again := runAtomic(7, texts...)
	s.Batches[2].Operations, s.Batches[4].Operations = []sqlgen.Operation{again}, []sqlgen.Operation{again}
	return s
}

// Earlier failures stay fixed: a text whose table was first missing and then present, rows that a conflict clause of
// the schema hides, keys that differ in bytes but not in meaning, rowids of no column.
func TestStore_AnySQL_KnownScripts(t *testing.T) {
	const dropX = "DROP TABLE IF EXISTS x"
	for name, s := range map[string]sqlgen.Script{
		"DropOfAbsentThenPresent":  script([]string{dropX}, []string{"CREATE TABLE x(id INTEGER PRIMARY KEY, v)"}, []string{dropX}),
		"DropIndexTwice":           script([]string{"CREATE TABLE x(id INTEGER PRIMARY KEY, v)", "DROP INDEX IF EXISTS ix"}, []string{"CREATE INDEX ix ON x(v)"}, []string{"DROP INDEX IF EXISTS ix"}),
		"CreateIndexTwice":         script([]string{"CREATE TABLE x(id INTEGER PRIMARY KEY, v)", "CREATE UNIQUE INDEX ix ON x(v)", "CREATE UNIQUE INDEX IF NOT EXISTS ix ON x(v)"}, []string{"DROP INDEX ix", "CREATE UNIQUE INDEX IF NOT EXISTS ix ON x(v)"}),
		"DropInOneBatch":           script([]string{dropX, "CREATE TABLE x(id INTEGER PRIMARY KEY, v)", "INSERT INTO x VALUES(1,'a')", dropX}),
		"CollationOfKey":           script([]string{"CREATE TABLE x(k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, v)", "INSERT INTO x VALUES('ann',1)"}, []string{"UPDATE x SET k='Ann'"}, []string{"INSERT OR REPLACE INTO x VALUES('ANN',2)"}),
		"KeyOfNoType":              script([]string{"CREATE TABLE x(k NOT NULL PRIMARY KEY, v)", "INSERT INTO x VALUES(1,1)"}, []string{"UPDATE x SET k=1.0"}),
		"NegativeZero":             script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY, v)", "INSERT INTO x VALUES(1,0.0)"}, []string{"UPDATE x SET v=-0.0"}),
		"RowidsOfNoColumn":         script([]string{"INSERT INTO users VALUES('d','x')", "INSERT INTO users VALUES('b','x')", "INSERT INTO users VALUES('c','x')", "INSERT INTO users VALUES('a','x')"}),
		"FailLeavesNothing":        script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY, v)", "INSERT INTO x VALUES(2,1)"}, []string{"INSERT OR FAIL INTO x VALUES(1,1),(2,2)"}),
		"LargestRowidUsed":         script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO x VALUES(9223372036854775807,1)"}, []string{"INSERT INTO x(v) VALUES(2)", "INSERT INTO users VALUES('a','x')"}),
		"ImmediateAndDeferredKey":  script([]string{"CREATE TABLE y(id PRIMARY KEY)", "CREATE TABLE x(k INTEGER PRIMARY KEY, c REFERENCES y(id), d REFERENCES y(id) DEFERRABLE INITIALLY DEFERRED)"}, []string{"INSERT INTO users VALUES('a','x')", "INSERT INTO x VALUES(3,'B',x'61')", "INSERT INTO users VALUES('b','x')"}),
		"StrictTypeOfThirdRow":     script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY, a BLOB) STRICT"}, []string{"INSERT INTO x(a) VALUES(x''),(x'61'),('text')", "INSERT INTO x(a) VALUES(x'62')"}),
		"SchemaThatDoesNothing":    script([]string{"INSERT INTO users VALUES('a','x')", "DROP INDEX IF EXISTS absent", "CREATE TABLE IF NOT EXISTS users(a)"}),
		"CounterOfDroppedAndAgain": script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO x(v) VALUES(1),(2)", "DELETE FROM x"}, []string{"INSERT INTO x(v) VALUES(3)"}, []string{"DROP TABLE x"}, []string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO x(v) VALUES(1)"}),
		"LargestRowidInBatch":      script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO x VALUES(1,3)"}, []string{"UPDATE sqlite_sequence SET seq=9223372036854775807 WHERE name='x'", "INSERT INTO x(v) VALUES(3)", "INSERT INTO users VALUES('a','x')"}),
		"CounterWithoutRow":        script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)"}, []string{"INSERT INTO x(v) SELECT v FROM x"}),
		"CounterThereAndBack":      script([]string{"CREATE TABLE x(k INTEGER PRIMARY KEY AUTOINCREMENT, v)"}, []string{"INSERT INTO x(v) VALUES(1)", "DELETE FROM sqlite_sequence"}),
		"FailedReadComesAgain":     comesAgain("UPDATE x SET v=1", "SELECT abs(v) FROM x", "INSERT INTO x VALUES(2, 2)"),
		"NothingDoneComesAgain":    comesAgain("CREATE TRIGGER r AFTER INSERT ON x BEGIN DELETE FROM x; END", "DROP TRIGGER IF EXISTS r"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	for n := 2; n < 22; n++ {
		for _, clause := range []string{"IGNORE", "REPLACE", "ROLLBACK"} {
			t.Run(fmt.Sprint("ConflictClauseOfColumn", clause, n), func(t *testing.T) {
				t.Parallel()
				err := play(t.Context(), script([]string{"CREATE TABLE x(id INTEGER PRIMARY KEY, u TEXT UNIQUE ON CONFLICT " + clause + ")", "INSERT INTO x VALUES(1,'a')"},
					[]string{"DELETE FROM x WHERE id=1", fmt.Sprintf("INSERT INTO x VALUES(%d,'a')", n)}))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A failing script is reduced to a minimal one.
func TestStore_AnySQL_Shrinks(t *testing.T) {
	small := sqlgen.Shrink(sqlgen.Make(1), func(s sqlgen.Script) bool {
		return slices.ContainsFunc(s.Batches, func(b sqlgen.Batch) bool {
			return slices.ContainsFunc(b.Operations, func(o sqlgen.Operation) bool { return o.Number == 3 })
		})
	})
	if len(small.Batches) != 1 || len(small.Batches[0].Operations) != 1 || len(small.Batches[0].Operations[0].Statements) != 1 {
		t.Errorf("got %s, want one statement", small.String())
	}
}
