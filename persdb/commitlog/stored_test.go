package commitlog_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// A large answer is returned once and not stored: a repeated operation is answered as done, and nothing runs twice.
func TestStore_Commit_LargeAnswerIsNotKept(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	for n, size := range []int{60_000, 70_000} {
		insert := fmt.Sprintf("INSERT INTO users VALUES('u%d', 'x') RETURNING printf('%%.*c', %d, 'x')", n, size)
		o := op(n, insert, "UPDATE users SET password='y'")
		first := storetest.Commit(t, s, epoch, o)
		if got := len(first.Results[0].Statements[0].Rows); got != 1 {
			t.Fatalf("first answer of %d bytes has %d rows", size, got)
		}
		closeStore(t, s)
		s = reopen(t, cfg)
		want := first.Results
		if size > 64<<10 {
			left := &want[0].Statements[0]
			left.Message, left.Columns, left.Types, left.Rows = "done, its answer was not kept", nil, nil, nil
		}
		again := storetest.Commit(t, s, epoch, o)
		if diff := cmp.Diff(want, again.Results); diff != "" || again.Entry != nil {
			t.Errorf("%d bytes, second delivery (-want +got), entry %v:\n%s", size, again.Entry, diff)
		}
	}
	closeStore(t, s)
}

// An operation that only reads leaves nothing in the log, alone or with others, unless its result may be queried: it
// was queued, a client named it, or a part of it failed.
func TestStore_Commit_ReadsAreNotLogged(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	made := func(deadline time.Duration, statements ...string) dbaas.Operation {
		o := op(0, statements...)
		o.ID = dbaas.NewOpID(time.Now())
		if deadline != 0 {
			o.Deadline = time.Now().Add(deadline)
		}
		return o
	}
	const soon = time.Hour
	named := made(soon, "SELECT 1")
	named.ID = dbaas.OpIDFromKey("k")
	storetest.Commit(t, s, epoch, op(1, ann))
	for name, tc := range map[string]struct {
		op     dbaas.Operation
		logged bool
	}{
		"Read":       {made(soon, "WITH x AS (SELECT 1) SELECT * FROM x", "SELECT 2"), false},
		"Queued":     {made(0, "SELECT 1"), true},
		"Named":      {named, true},
		"AlsoWrites": {made(soon, "SELECT 1", "UPDATE users SET password='z'"), true},
		"DropsNone":  {made(soon, "DROP TABLE IF EXISTS nosuch"), true}, // a second run may drop one
		"FailsFirst": {made(soon, "SELECT * FROM nosuch"), true},
		"FailsWrite": {made(soon, "INSERT INTO nosuch VALUES(1)", "SELECT 1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := storetest.Commit(t, s, epoch, tc.op)
			if (c.Entry != nil) != tc.logged {
				t.Errorf("entry %v, want one: %v", c.Entry, tc.logged)
			}
			if got := c.Results[0].Seq; !tc.logged && got != before.Seq {
				t.Errorf("read at %d, want %d", got, before.Seq)
			}
			if _, err := s.Lookup(t.Context(), tc.op.ID); (err == nil) != tc.logged {
				t.Errorf("lookup: %v", err)
			}
		})
	}
	read := made(soon, "SELECT count(*) FROM users")
	c := storetest.Commit(t, s, epoch, op(2, bob), read, op(3, "DELETE FROM users"))
	if c.Entry == nil || len(c.Results[1].Statements[0].Rows) != 1 || c.Results[1].Statements[0].Rows[0][0].Int != 2 ||
		c.Results[1].Seq != c.Entry.Seq {
		t.Errorf("read between two writes: entry %v, got %+v", c.Entry, c.Results[1])
	}
	if again := storetest.Commit(t, s, epoch, op(3, "DELETE FROM users")); outcome(again.Results[0]) != "ok" {
		t.Errorf("a write after a read came again: %s", outcome(again.Results[0]))
	}
	if _, err := s.Lookup(t.Context(), read.ID); dbaas.CodeOf(err) != dbaas.CodeNotFound {
		t.Errorf("lookup of the read: %v", err)
	}
}
