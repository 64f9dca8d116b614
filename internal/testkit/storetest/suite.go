package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"

	"github.com/google/go-cmp/cmp"
)

// Run runs the suite. open returns a store in a new, empty directory, with the default settings.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Store){
		"CommitIsInLogAndHead":       commitIsInLogAndHead,
		"RepeatedGetsSameResult":     repeatedGetsSameResult,
		"OtherStatementIsMismatch":   otherStatementIsMismatch,
		"OldEpochIsStale":            oldEpochIsStale,
		"OtherClusterIsStale":        otherClusterIsStale,
		"OtherClustersOperation":     operationOfOtherClusterIsNotRun,
		"LateIsExpired":              lateIsExpired,
		"LookupFindsResult":          lookupFindsResult,
		"SizesGrow":                  sizesGrow,
		"LogWaitsForNextEntry":       logWaitsForNextEntry,
		"LogAfterHeadIsGone":         logAfterHeadIsGone,
		"SnapshotAndLogGiveSameRows": snapshotAndLogGiveSameRows,
		"CancelledCommitIsNotDone":   cancelledCommitIsNotDone,
		"SmallDatabaseIsOnePart":     smallDatabaseIsOnePart,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// smallDatabaseIsOnePart: the first part has the same hashes as Hashes, and a part that begins after the last row
// contains only the schema.
func smallDatabaseIsOnePart(t *testing.T, s Store) {
	t.Helper()
	epoch, err := s.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	Commit(t, s, epoch, insert(1, "ann"))
	want, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.HashPart(t.Context(), dbaas.HashFrom{})
	if err != nil || part.Seq != want.Seq || part.Limit != dbaas.HashPartBytes || part.Next != (dbaas.HashFrom{}) {
		t.Fatalf("got %+v, %v; want one part at %d", part, err, want.Seq)
	}
	if diff := cmp.Diff(want.Tables, part.Tables); diff != "" {
		t.Errorf("hashes (-all +part):\n%s", diff)
	}
	last := dbaas.HashFrom{Table: "users", Within: true, After: 1<<63 - 1}
	if part, err = s.HashPart(t.Context(), last); err != nil || part.Tables["rides"] != "" || part.Tables["users"] == want.Tables["users"] {
		t.Errorf("after the last row: got %+v, %v; want nothing before users, and none of its rows", part, err)
	}
}

// insert returns operation n, which inserts a user with the given name.
func insert(n int, user string) dbaas.Operation {
	return Op(n, "INSERT INTO users(username, password) VALUES('"+user+"', 'x') RETURNING username, 1.5 AS f, x'01' AS b, NULL AS z")
}

func commitIsInLogAndHead(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	c := Commit(t, s, epoch, insert(1, "ann"), insert(2, "ann"), Op(3, "DELETE FROM users WHERE username='nobody'"))
	want := []dbaas.OperationResult{
		{ID: ID(1), Seq: 1, Statements: []dbaas.StatementResult{{
			LastInsertID: 1, RowsAffected: 1, Columns: []string{"username", "f", "b", "z"}, Types: []string{"text", "", "", ""},
			Rows: []dbaas.Row{{dbaas.Text("ann"), dbaas.Float(1.5), dbaas.Blob([]byte{1}), dbaas.Null()}},
		}}},
		{ID: ID(2), Seq: 1, Statements: []dbaas.StatementResult{{Code: dbaas.CodeConstraint, Message: "UNIQUE constraint failed: users.username"}}},
		{ID: ID(3), Seq: 1, Statements: []dbaas.StatementResult{{}}},
	}
	if diff := cmp.Diff(want, c.Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	head, err := s.Head(t.Context())
	if wantHead := (dbaas.Head{Cluster: head.Cluster, Seq: 1, Epoch: epoch}); err != nil || head != wantHead {
		t.Errorf("got head %v, %v, want %v", head, err, wantHead)
	}
	page, err := s.Log(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dbaas.Page{Head: head, First: 1, Entries: []dbaas.Entry{Entry(t, c)}}, page); diff != "" {
		t.Errorf("log and entry of the commit differ (-commit +log):\n%s", diff)
	}
}

func repeatedGetsSameResult(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	first := Commit(t, s, epoch, insert(1, "ann"), insert(2, "ann"))
	Commit(t, s, epoch, Op(3, "DELETE FROM users"))
	again := Commit(t, s, Claim(t, s), insert(2, "ann"), insert(1, "ann"))
	if again.Entry != nil {
		t.Error("operations that are known made an entry")
	}
	if diff := cmp.Diff([]dbaas.OperationResult{first.Results[1], first.Results[0]}, again.Results); diff != "" {
		t.Errorf("results of the second delivery (-first +second):\n%s", diff)
	}
}

func otherStatementIsMismatch(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	Commit(t, s, epoch, insert(1, "ann"))
	c := Commit(t, s, epoch, insert(1, "bob"), insert(2, "cid"), insert(2, "dan"))
	for i, want := range []dbaas.Code{dbaas.CodeMismatch, dbaas.CodeOK, dbaas.CodeMismatch} {
		if got := c.Results[i].Code; got != want {
			t.Errorf("operation %d: got %q, want %q", i, got, want)
		}
	}
}

func oldEpochIsStale(t *testing.T, s Store) {
	t.Helper()
	old := Claim(t, s)
	Commit(t, s, old, insert(2, "bob"))
	Claim(t, s)
	for _, epoch := range []dbaas.Epoch{old, 0, 99} {
		for _, batch := range [][]dbaas.Operation{{insert(1, "ann")}, {insert(2, "bob")}, nil} { // new, known, none.
			_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, batch)
			if !errors.Is(err, dbaas.ErrStaleEpoch) {
				t.Errorf("epoch %d, %d operations: got %v, want %v", epoch, len(batch), err, dbaas.ErrStaleEpoch)
			}
		}
	}
	if head, err := s.Head(t.Context()); err != nil || head.Seq != 1 {
		t.Errorf("got head %v, %v after refused commits", head, err)
	}
}

// otherClusterIsStale: every result with a position has the cluster's id, and a commit is accepted only for that
// cluster, or for no cluster.
func otherClusterIsStale(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	entry := Commit(t, s, epoch, insert(1, "ann")).Entry
	head, err := s.Head(t.Context())
	page, err2 := s.Log(t.Context(), 0, 0)
	snapshot, err3 := s.Snapshot(t.Context())
	if err = errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if err = snapshot.Body.Close(); err != nil {
		t.Error(err)
	}
	for what, got := range map[string]dbaas.ClusterID{
		"commit": entry.Cluster, "page": page.Head.Cluster, "entry": page.Entries[0].Cluster, "snapshot": snapshot.Head.Cluster,
	} {
		if got != head.Cluster || got.IsZero() {
			t.Errorf("%s: got cluster %s, the head's is %s", what, got, head.Cluster)
		}
	}
	if _, err = s.Commit(t.Context(), dbaas.Leadership{Cluster: head.Cluster, Epoch: epoch}, []dbaas.Operation{insert(2, "bob")}); err != nil {
		t.Errorf("own cluster: %v", err)
	}
	other := dbaas.NewClusterID()
	_, err = s.Commit(t.Context(), dbaas.Leadership{Cluster: other, Epoch: epoch}, []dbaas.Operation{insert(3, "cid")})
	if !errors.Is(err, dbaas.ErrStaleEpoch) || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), head.Cluster.String()) {
		t.Errorf("other cluster: got %v, want stale, with both ids", err)
	}
}

// operationOfOtherClusterIsNotRun: an operation that was accepted for another cluster is refused, unless it is known. If
// it is given up, its failure is stored only under a generated id, so that a client's key can still run in this cluster.
func operationOfOtherClusterIsNotRun(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := insert(1, "ann")
	first := Commit(t, s, epoch, known).Results[0]
	old, keyed := insert(2, "bob"), insert(3, "cid")
	old.ID, keyed.ID = dbaas.NewOpID(time.Now()), dbaas.OpIDFromKey("k")
	known.Cluster = dbaas.NewClusterID()
	old.Cluster, keyed.Cluster = known.Cluster, known.Cluster
	c := Commit(t, s, epoch, known, old, keyed)
	if diff := cmp.Diff(first, c.Results[0]); diff != "" {
		t.Errorf("a known operation (-first +again):\n%s", diff)
	}
	for _, r := range c.Results[1:] {
		if r.Code != dbaas.CodeUnavailable || !strings.Contains(r.Message, old.Cluster.String()) || c.Entry != nil {
			t.Errorf("got %+v, want it refused with %q and the cluster", r, dbaas.CodeUnavailable)
		}
	}
	old.GiveUp, keyed.GiveUp = "given up", "given up"
	c = Commit(t, s, epoch, old, keyed)
	if r := c.Results[0]; r.Code != dbaas.CodeOK || r.Statements[0].Code != dbaas.CodeUnavailable {
		t.Errorf("given up: got %+v, want a stored failure", r)
	}
	if r := c.Results[1]; r.Code != dbaas.CodeUnavailable {
		t.Errorf("given up under a client's key: got %+v, want it refused", r)
	}
	keyed.GiveUp, keyed.Cluster = "", head.Cluster
	if r := Commit(t, s, epoch, keyed).Results[0]; r.Code != dbaas.CodeOK || r.Statements[0].Code != dbaas.CodeOK {
		t.Errorf("the same key for this cluster: got %+v, want it run", r)
	}
	own := insert(4, "bob") // the row of old
	own.Cluster = head.Cluster
	if r := Commit(t, s, epoch, own).Results[0]; r.Code != dbaas.CodeOK || r.Statements[0].Code != dbaas.CodeOK {
		t.Errorf("an operation of this cluster: got %+v, want it run", r)
	}
}

func lateIsExpired(t *testing.T, s Store) {
	t.Helper()
	op := insert(1, "ann")
	op.Deadline = time.Now().Add(-time.Second)
	epoch := Claim(t, s)
	c := Commit(t, s, epoch, op)
	if c.Results[0].Code != dbaas.CodeUnavailable || c.Entry != nil {
		t.Errorf("got %+v, want it refused with %q", c.Results[0], dbaas.CodeUnavailable)
	}
	op.Deadline = time.Now().Add(time.Hour) // the operation did not run, so it may run now.
	if c := Commit(t, s, epoch, op); c.Results[0].Code != dbaas.CodeOK {
		t.Errorf("got %+v, want it run", c.Results[0])
	}
}

func lookupFindsResult(t *testing.T, s Store) {
	t.Helper()
	c := Commit(t, s, Claim(t, s), insert(1, "ann"), insert(2, "bob"))
	got, err := s.Lookup(t.Context(), ID(2))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Results[1], got); diff != "" {
		t.Errorf("result (-commit +lookup):\n%s", diff)
	}
	if _, err := s.Lookup(t.Context(), ID(3)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
		t.Errorf("unknown id: got %v, want code %q", err, dbaas.CodeNotFound)
	}
}

func sizesGrow(t *testing.T, s Store) {
	t.Helper()
	before, err := s.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	Commit(t, s, Claim(t, s), Op(1, "INSERT INTO users VALUES('ann', printf('%.*c', 300000, 'x'))"))
	after, err := s.Sizes(t.Context())
	if err != nil || after.Tables < before.Tables+280_000 || after.Log < before.Log+300_000 || after.File < after.Tables || after.Full || after.DiskFull {
		t.Errorf("got %+v, %v after %+v and 300 kB more", after, err, before)
	}
}

func logWaitsForNextEntry(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	Commit(t, s, epoch, insert(1, "ann"))
	got := make(chan dbaas.Page, 1)
	go func() {
		page, err := s.Log(t.Context(), 1, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- page
	}()
	Commit(t, s, epoch, insert(2, "bob"))
	page := <-got
	if len(page.Entries) != 1 || page.Entries[0].Seq != 2 {
		t.Errorf("got %+v, want entry 2", page)
	}
	page, err := s.Log(t.Context(), 2, time.Millisecond)
	if err != nil || len(page.Entries) != 0 || page.Head.Seq != 2 {
		t.Errorf("got %+v, %v, want an empty page when the wait is over", page, err)
	}
}

func logAfterHeadIsGone(t *testing.T, s Store) {
	t.Helper()
	Commit(t, s, Claim(t, s), insert(1, "ann"))
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Log(t.Context(), 7, 0)
	if !errors.Is(err, dbaas.ErrGone) {
		t.Errorf("got %v, want %v", err, dbaas.ErrGone)
	}
	if diff := cmp.Diff(dbaas.Page{Head: head, First: 1}, page); diff != "" {
		t.Errorf("bounds of the log (-want +got):\n%s", diff)
	}
}

func snapshotAndLogGiveSameRows(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	empty := NewReplica(t, s)
	Commit(t, s, epoch, insert(1, "ann"), insert(2, "bob"),
		Op(3, "INSERT INTO rides(created_by,timestamp,source,destination,seats) VALUES('ann','now',1,2,3)"))
	middle := NewReplica(t, s)
	Commit(t, s, epoch, Op(4, "INSERT INTO riders(rideId,user) VALUES(1,'bob')"), Op(5, "UPDATE users SET username='zoe' WHERE username='bob'"))
	Commit(t, s, epoch, Op(6, "CREATE TABLE extra(id INTEGER PRIMARY KEY, v)"), Op(7, "INSERT INTO extra(v) VALUES(random())"), Op(8, "DELETE FROM users WHERE username='ann'"))
	for _, r := range []*Replica{empty, middle, NewReplica(t, s)} {
		r.Follow(t, s)
	}
}

func cancelledCommitIsNotDone(t *testing.T, s Store) {
	t.Helper()
	epoch := Claim(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := Op(1, "INSERT INTO users VALUES('ann', 'x')", "INSERT INTO apicount SELECT 'n'||i, i FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n)")
	_, err := s.Commit(ctx, dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{slow})
	if code := dbaas.CodeOf(err); code != dbaas.CodeUnavailable && code != dbaas.CodeUnknown {
		t.Fatalf("got %v, want it given up", err)
	}
	if c := Commit(t, s, epoch, insert(2, "ann")); c.Results[0].Seq != 1 || c.Results[0].Code != dbaas.CodeOK {
		t.Errorf("got %+v, want it run now", c.Results[0])
	}
}
