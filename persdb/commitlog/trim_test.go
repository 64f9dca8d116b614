package commitlog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/commitlog/storetest"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// issued returns operation n as accepted at a time.
func issued(n int, at time.Time, statement string) dbaas.Operation {
	o := op(n, statement)
	o.IssuedAt = at
	return o
}

// The policy gives up what is too old or too much, but nothing young and never the newest.
func TestRetention_Trimmable(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	policy := commitlog.Retention{For: h, Ops: 100}
	for _, tc := range []struct {
		ages []time.Duration
		ops  int
		want int
	}{
		{nil, 0, 0},
		{[]time.Duration{5 * h}, 1, 0},
		{[]time.Duration{5 * h, 4 * h}, 1, 1},
		{[]time.Duration{h + s, h, m, 0}, 1, 1},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 60, 2},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 50, 1},
		{[]time.Duration{9 * m, 8 * m}, 50, 0},
		{[]time.Duration{m, 59 * s, 58 * s, 57 * s}, 60, 1},
		{[]time.Duration{30 * s, 20 * s, 10 * s}, 1000, 0},
		{[]time.Duration{-h, -h, -h}, 1000, 0},
	} {
		if got := commitlog.Trimmable(policy, tc.ages, tc.ops); got != tc.want {
			t.Errorf("ages %v with %d operations each: got %d, want %d", tc.ages, tc.ops, got, tc.want)
		}
	}
}

// What was trimmed is gone for readers, and an operation that may have been in it
// is refused and not run again, also after opening anew.
func TestStore_Trim_ForgottenOperationIsRefused(t *testing.T) {
	clk := &clock{now: time.Now().Truncate(time.Millisecond)}
	cfg := commitlog.Config{Dir: t.TempDir(), Now: clk.Now}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	begin := clk.Now()
	for n := range 5 {
		storetest.Commit(t, s, epoch, issued(n, clk.Now(), fmt.Sprintf("INSERT INTO users VALUES('u%d','x')", n)))
		clk.advance(30 * time.Minute)
	}
	trimmed, err := s.Trim(t.Context(), clk.Now()) // entries are 150, 120, 90, 60 and 30 minutes old.
	if err != nil || trimmed != 3 {
		t.Fatalf("trimmed %d, %v, want 3", trimmed, err)
	}
	storetest.Commit(t, s, epoch, issued(9, clk.Now(), "DELETE FROM users"))
	check := func() {
		t.Helper()
		for after, gone := range map[dbaas.Seq]bool{0: true, 2: true, 3: false, 4: false} {
			if _, err := s.Log(t.Context(), after, 0); errors.Is(err, dbaas.ErrGone) != gone {
				t.Errorf("log after %d: got %v, want gone %v", after, err, gone)
			}
		}
		if _, err := s.Lookup(t.Context(), storetest.ID(2)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
			t.Errorf("lookup of a trimmed operation: got %v", err)
		}
		horizon := begin.Add(time.Hour).Truncate(time.Millisecond) // when the third entry was made.
		for _, tc := range []struct {
			op   dbaas.Operation
			want string
		}{
			{issued(2, begin.Add(time.Hour), "INSERT INTO users VALUES('u2','x')"), "refused expired"},
			{issued(3, begin.Add(90*time.Minute), "INSERT INTO users VALUES('u3','x')"), "ok"}, // known still: its old answer.
			{issued(50, time.Time{}, ann), "refused expired"},
			{issued(51, horizon.Add(5*time.Second), ann), "refused expired"},
			{issued(52, horizon.Add(5*time.Second+time.Millisecond), "SELECT 1"), "ok"},
		} {
			c := storetest.Commit(t, s, epoch, tc.op)
			if got := outcome(c.Results[0]); got != tc.want {
				t.Errorf("operation issued at %v: got %s, want %s", tc.op.IssuedAt, got, tc.want)
			}
		}
		r := storetest.NewReplica(t, s)
		r.Follow(t, s)
		if n := count(t, r, "users"); n != 0 {
			t.Errorf("%d users are back", n)
		}
	}
	check()
	closeStore(t, s)
	s = reopen(t, cfg)
	check()
	closeStore(t, s)
}

// A log of more entries than one chunk is trimmed to its newest entry, and goes on.
func TestStore_Trim_Everything(t *testing.T) {
	clk := &clock{now: time.Now().Truncate(time.Millisecond)}
	s := open(t, commitlog.Config{Now: clk.Now})
	epoch := storetest.Claim(t, s)
	const entries = 300
	for n := range entries {
		storetest.Commit(t, s, epoch, issued(n, clk.Now(), "UPDATE users SET password=''"))
	}
	clk.advance(2 * time.Hour)
	if n, err := s.Trim(t.Context(), clk.Now()); err != nil || n != entries-1 {
		t.Fatalf("trimmed %d, %v, want %d", n, err, entries-1)
	}
	c := storetest.Commit(t, s, epoch, issued(entries, clk.Now(), ann))
	if c.Entry.Seq != entries+1 {
		t.Errorf("got entry %d, want %d", c.Entry.Seq, entries+1)
	}
	page, err := s.Log(t.Context(), entries-1, 0)
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("got %d entries, %v, want 2", len(page.Entries), err)
	}
}

// The times of entries never go back, though the clock may.
func TestStore_Commit_ClockGoesBack(t *testing.T) {
	clk := &clock{now: time.Now().Truncate(time.Millisecond)}
	s := open(t, commitlog.Config{Now: clk.Now})
	epoch := storetest.Claim(t, s)
	first := storetest.Commit(t, s, epoch, op(1, ann))
	clk.advance(-time.Hour)
	second := storetest.Commit(t, s, epoch, op(2, bob))
	if second.Entry.At.Before(first.Entry.At) {
		t.Errorf("entry 2 is of %v, entry 1 of %v", second.Entry.At, first.Entry.At)
	}
}
