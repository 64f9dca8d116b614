package dbtest

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
)

// Run tests the behaviour of the orchestrator that users and rides rely on. url is that of the stand-in or of the
// real orchestrator. It empties the application's tables.
func Run(t *testing.T, url string) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *dbclient.Client){
		"ReadyAnswers":          readyAnswers,
		"ValuesAreExact":        valuesAreExact,
		"ResultsInOrder":        resultsInOrder,
		"FailedBatchIsUndone":   failedBatchIsUndone,
		"ErrorsByCode":          errorsByCode,
		"KeyIsAppliedOnce":      keyIsAppliedOnce,
		"KeyOfFailureStays":     keyOfFailureStays,
		"KeyBelongsToItsRoute":  keyBelongsToItsRoute,
		"PositionsGrow":         positionsGrow,
		"RowsComeInOrder":       rowsComeInOrder,
		"DeletedUserTakesRides": deletedUserTakesRides,
		"ClearEmptiesAll":       clearEmptiesAll,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dbclient.New(dbclient.Config{URL: url, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if _, err = c.Clear(t.Context(), dbclient.Options{}); err != nil {
				t.Fatal(err)
			}
			test(t, c)
		})
	}
}

var (
	countUsers = dbclient.SQL("SELECT count(*) FROM users")
	insertRide = dbclient.SQL("INSERT INTO rides(created_by, timestamp, source, destination) VALUES('ann', 'x', 1, 2)")
)

func insertUser(name string) dbaas.Statement {
	return dbclient.SQL("INSERT INTO users(username, password) VALUES(?, 'x')", dbaas.Text(name))
}

// execute writes, or fails the test.
func execute(t *testing.T, c *dbclient.Client, key string, stmts ...dbaas.Statement) dbclient.Answer {
	t.Helper()
	ans, err := c.Execute(t.Context(), dbclient.Options{Key: key}, stmts...)
	if err != nil {
		t.Fatal(err)
	}
	return ans
}

// number is the one value of a query.
func number(t *testing.T, c *dbclient.Client, stmt dbaas.Statement) int64 {
	t.Helper()
	ans, err := c.Query(t.Context(), dbclient.Options{}, stmt)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := ans.Results[0].Rows[0][0].(int64)
	if !ok {
		t.Fatalf("got %v, want a number", ans.Results[0].Rows)
	}
	return n
}

func readyAnswers(t *testing.T, c *dbclient.Client) {
	t.Helper()
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("got %v, want ready", err)
	}
}

// Values are returned exactly as they were written: big integers exact, hostile text unchanged, NULL as nil.
func valuesAreExact(t *testing.T, c *dbclient.Client) {
	t.Helper()
	for _, text := range []string{"", "x'68'", "a\x00b", "日本 \u2028 <&>", `"'\`, strings.Repeat("x", 100_000)} {
		ans, err := c.Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT ?, ?, ?, ?, NULL",
			dbaas.Text(text), dbaas.Integer(math.MaxInt64), dbaas.Integer(math.MinInt64), dbaas.Float(0.1)))
		if err != nil {
			t.Fatal(err)
		}
		want := [][]any{{text, int64(math.MaxInt64), int64(math.MinInt64), 0.1, nil}}
		if diff := cmp.Diff(want, ans.Results[0].Rows); diff != "" {
			t.Errorf("%.20q (-want +got):\n%s", text, diff)
		}
	}
}

// Results are in the order of the statements, reads and writes mixed: each statement sees the effects of those before
// it.
func resultsInOrder(t *testing.T, c *dbclient.Client) {
	t.Helper()
	ans, err := c.Request(t.Context(), dbclient.Options{}, countUsers, insertUser("ann"), countUsers, insertRide,
		dbclient.SQL("DELETE FROM users WHERE username = 'nobody'"), dbclient.SQL("SELECT 1 WHERE 0"))
	if err != nil {
		t.Fatal(err)
	}
	got := ans.Results
	if got[0].Rows[0][0] != int64(0) || got[1].RowsAffected != 1 || got[2].Rows[0][0] != int64(1) ||
		got[3].LastInsertID != 1 || got[4].RowsAffected != 0 || len(got[5].Rows) != 0 {
		t.Errorf("got %+v, want none, one inserted, one, ride 1, none deleted, no row", got)
	}
}

// A violated constraint rolls back the whole batch; the results before it are returned.
func failedBatchIsUndone(t *testing.T, c *dbclient.Client) {
	t.Helper()
	ans, err := c.Request(t.Context(), dbclient.Options{}, insertUser("ann"), insertUser("ann"), insertUser("bob"))
	if dbaas.CodeOf(err) != dbaas.CodeConstraint || len(ans.Results) != 1 {
		t.Errorf("got %+v, %v; want one result and %s", ans.Results, err, dbaas.CodeConstraint)
	}
	if n := number(t, c, countUsers); n != 0 {
		t.Errorf("got %d users, want 0", n)
	}
}

// Callers recognise by the text which constraint was violated. Wrong SQL is the caller's own bug.
func errorsByCode(t *testing.T, c *dbclient.Client) {
	t.Helper()
	execute(t, c, "", insertUser("ann"))
	for _, tt := range []struct {
		stmt dbaas.Statement
		want dbaas.Code
		text string
	}{
		{insertUser("ann"), dbaas.CodeConstraint, "UNIQUE constraint failed: users.username"},
		{dbclient.SQL("INSERT INTO riders(rideId, user) VALUES(1, 'ann')"), dbaas.CodeConstraint, "FOREIGN KEY constraint failed"},
		{dbclient.SQL("INSERT INTO users(username) VALUES('bob')"), dbaas.CodeConstraint, "NOT NULL constraint failed: users.password"},
		{dbclient.SQL("INSERT INTO nowhere VALUES(1)"), dbaas.CodeInternal, "no such table: nowhere"},
	} {
		_, err := c.Execute(t.Context(), dbclient.Options{}, tt.stmt)
		if dbaas.CodeOf(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %s with %q", tt.stmt.SQL, err, tt.want, tt.text)
		}
	}
	if _, err := c.Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT * FROM nowhere")); dbaas.CodeOf(err) != dbaas.CodeInternal {
		t.Errorf("wrong read: got %v, want %s", err, dbaas.CodeInternal)
	}
}

// The same key with the same statement is applied once, and returns the first answer; with another statement it is
// CodeMismatch.
func keyIsAppliedOnce(t *testing.T, c *dbclient.Client) {
	t.Helper()
	first := execute(t, c, t.Name(), insertUser("ann"))
	execute(t, c, "", insertUser("bob"))
	if diff := cmp.Diff(first, execute(t, c, t.Name(), insertUser("ann"))); diff != "" {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	if _, err := c.Execute(t.Context(), dbclient.Options{Key: t.Name()}, insertUser("cid")); dbaas.CodeOf(err) != dbaas.CodeMismatch {
		t.Errorf("other statement: got %v, want %s", err, dbaas.CodeMismatch)
	}
	if n := number(t, c, countUsers); n != 2 {
		t.Errorf("got %d users, want 2", n)
	}
}

// A write that violated a constraint stays refused under its key, whatever was done since.
func keyOfFailureStays(t *testing.T, c *dbclient.Client) {
	t.Helper()
	execute(t, c, "", insertUser("ann"))
	for range 2 {
		if _, err := c.Execute(t.Context(), dbclient.Options{Key: t.Name()}, insertUser("ann")); dbaas.CodeOf(err) != dbaas.CodeConstraint {
			t.Errorf("got %v, want %s", err, dbaas.CodeConstraint)
		}
		execute(t, c, "", dbclient.SQL("DELETE FROM users"))
	}
}

// One key at two routes identifies two operations.
func keyBelongsToItsRoute(t *testing.T, c *dbclient.Client) {
	t.Helper()
	execute(t, c, t.Name(), insertUser("ann"))
	if _, err := c.Request(t.Context(), dbclient.Options{Key: t.Name()}, insertUser("bob")); err != nil {
		t.Errorf("got %v, want it applied", err)
	}
	if n := number(t, c, countUsers); n != 2 {
		t.Errorf("got %d users, want 2", n)
	}
}

// Each write has a higher position than the writes before it. A read at that position sees the write, and a read at a
// position that no worker has reached is refused.
func positionsGrow(t *testing.T, c *dbclient.Client) {
	t.Helper()
	var last dbaas.Seq
	for i, name := range []string{"ann", "bob", "cid"} {
		wrote := execute(t, c, "", insertUser(name)).Seq
		ans, err := c.Query(t.Context(), dbclient.Options{MinSeq: wrote}, countUsers)
		if err != nil {
			t.Fatal(err)
		}
		if wrote <= last || ans.Seq < wrote || ans.Results[0].Rows[0][0] != int64(i+1) {
			t.Errorf("got %v at %d, written at %d after %d", ans.Results[0].Rows, ans.Seq, wrote, last)
		}
		last = wrote
	}
	if _, err := c.Query(t.Context(), dbclient.Options{MinSeq: last + 1000}, countUsers); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
		t.Errorf("a position to come: got %v, want %s", err, dbaas.CodeNotCaughtUp)
	}
}

func rowsComeInOrder(t *testing.T, c *dbclient.Client) {
	t.Helper()
	wrote := execute(t, c, "", insertUser("cid"), insertUser("ann"), insertUser("bob")).Seq
	var got []any
	names := dbclient.SQL("SELECT username FROM users ORDER BY username")
	seq, err := c.Rows(t.Context(), dbclient.Options{MinSeq: wrote}, names, func(_ dbaas.Seq, row []any) error {
		got = append(got, row...)
		return nil
	})
	if diff := cmp.Diff([]any{"ann", "bob", "cid"}, got); err != nil || seq < wrote || diff != "" {
		t.Errorf("at %d, %v, written at %d (-want +got):\n%s", seq, err, wrote, diff)
	}
	_, err = c.Rows(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT * FROM nowhere"), nil)
	if dbaas.CodeOf(err) != dbaas.CodeInternal {
		t.Errorf("wrong read: got %v, want %s", err, dbaas.CodeInternal)
	}
}

// The rides that a user has created and has joined go with the user.
func deletedUserTakesRides(t *testing.T, c *dbclient.Client) {
	t.Helper()
	execute(t, c, "", insertUser("ann"), insertUser("bob"), insertRide, dbclient.SQL("INSERT INTO riders(rideId, user) VALUES(1, 'bob')"))
	execute(t, c, "", dbclient.SQL("DELETE FROM users WHERE username = 'ann'"))
	if n := number(t, c, dbclient.SQL("SELECT (SELECT count(*) FROM rides) + (SELECT count(*) FROM riders)")); n != 0 {
		t.Errorf("got %d rides and seats, want none", n)
	}
}

// Clear empties everything but the counters, and ride ids begin again.
func clearEmptiesAll(t *testing.T, c *dbclient.Client) {
	t.Helper()
	written := execute(t, c, "", insertUser("ann"), insertRide, dbclient.SQL("INSERT INTO riders(rideId, user) VALUES(1, 'ann')")).Seq
	ans, err := c.Clear(t.Context(), dbclient.Options{Key: t.Name()})
	if err != nil || ans.Seq <= written {
		t.Fatalf("got position %d after %d, %v", ans.Seq, written, err)
	}
	got := execute(t, c, "", insertUser("ann"), insertRide).Results[1]
	if again, err := c.Clear(t.Context(), dbclient.Options{Key: t.Name()}); err != nil || again.Seq != ans.Seq {
		t.Errorf("the same key: got position %d, %v; want %d", again.Seq, err, ans.Seq)
	}
	if n := number(t, c, countUsers); n != 1 || got.LastInsertID != 1 {
		t.Errorf("got %d users, ride %d; want 1 of each", n, got.LastInsertID)
	}
}
