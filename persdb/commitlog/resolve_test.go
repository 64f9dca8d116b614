package commitlog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A clock that was wrong by years, in either direction, makes no operation fail: positions decide which operations may
// run.
func TestStore_Commit_ClockStepsRefuseNothing(t *testing.T) {
	clk := newClock()
	s := reopen(t, clk.config(t.TempDir()))
	defer closeStore(t, s)
	epoch := storetest.Claim(t, s)
	at := dbaas.Seq(0)
	for n, step := range []time.Duration{0, time.Hour, time.Hour, -3 * time.Hour, 20 * 365 * 24 * time.Hour, -40 * 365 * 24 * time.Hour} {
		clk.step(step)
		clk.advance(time.Minute)
		c := storetest.Commit(t, s, epoch, seen(n, at, "UPDATE users SET password=''"))
		if c.Results[0].Code != dbaas.CodeOK {
			t.Errorf("after a step of %v: got %+v, want it run", step, c.Results[0])
		}
		at = c.Results[0].Seq
		trim(t, s)
	}
}

// An operation that is given up never runs: its failure is stored under its id, for every later delivery and look-up,
// even if it arrived past its deadline.
func TestStore_Commit_GivenUpIsStoredAsFailed(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	o := op(1, ann)
	given := o
	given.Statements, given.GiveUp, given.Deadline = nil, "given up after three tries", time.Now().Add(-time.Second)
	want := []dbaas.StatementResult{{Code: dbaas.CodeUnavailable, Message: "given up after three tries"}}
	for _, again := range []dbaas.Operation{given, o, given} {
		c := storetest.Commit(t, s, epoch, again)
		if diff := cmp.Diff(want, c.Results[0].Statements); diff != "" || c.Results[0].Seq != 1 {
			t.Errorf("got %+v, want the failure at 1 (-want +got):\n%s", c.Results[0], diff)
		}
	}
	stored, err := s.Lookup(t.Context(), o.ID)
	if diff := cmp.Diff(want, stored.Statements); err != nil || diff != "" {
		t.Errorf("look-up: got %+v and %v (-want +got):\n%s", stored, err, diff)
	}
	if n := count(t, follower(t, s), "users"); n != 0 {
		t.Errorf("got %d users, want none", n)
	}
}

// An operation that has run keeps its result when it is given up later.
func TestStore_Commit_GivenUpTooLateKeepsItsResult(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	ran := storetest.Commit(t, s, epoch, op(1, ann)).Results[0]
	given := op(1, ann)
	given.GiveUp = "given up"
	c := storetest.Commit(t, s, epoch, given)
	if diff := cmp.Diff(ran, c.Results[0]); diff != "" || c.Entry != nil {
		t.Errorf("got entry %v, want none and the result of the run (-want +got):\n%s", c.Entry, diff)
	}
}

// An operation that may have run in a forgotten entry is given up without a statement about its effect.
func TestStore_Commit_GivenUpAndTooOld(t *testing.T) {
	clk := newClock()
	s := reopen(t, clk.config(t.TempDir()))
	defer closeStore(t, s)
	epoch := storetest.Claim(t, s)
	for n := range 3 {
		storetest.Commit(t, s, epoch, seen(n, dbaas.Seq(n), "UPDATE users SET password=''"))
	}
	clk.advance(2 * time.Hour)
	if n, err := s.Trim(t.Context()); err != nil || n != 2 {
		t.Fatalf("trimmed %d, %v, want 2", n, err)
	}
	o := seen(9, 1, ann)
	if c := storetest.Commit(t, s, epoch, o); c.Results[0].Code != dbaas.CodeExpired || c.Entry != nil {
		t.Errorf("got %+v, want it refused as too old", c.Results[0])
	}
	o.GiveUp = "it was not done"
	c := storetest.Commit(t, s, epoch, o)
	if r := c.Results[0]; r.Seq != 4 || len(r.Statements) != 1 || r.Statements[0].Code != dbaas.CodeExpired {
		t.Errorf("got %+v, want a failure with %q stored at 4", r, dbaas.CodeExpired)
	}
}

func follower(t *testing.T, s *commitlog.Store) *storetest.Replica {
	t.Helper()
	r := storetest.NewReplica(t, s)
	r.Follow(t, s)
	return r
}
