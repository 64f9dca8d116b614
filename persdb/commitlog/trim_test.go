package commitlog_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// clock is a wall clock that tests set, and the time since the start, which never steps.
type clock struct {
	mu      sync.Mutex // guards what follows
	now     time.Time
	elapsed time.Duration
}

func newClock() *clock { return &clock{now: time.Now().Truncate(time.Millisecond)} }

func (c *clock) config(dir string) commitlog.Config {
	return commitlog.Config{Dir: dir, Now: c.Now, Elapsed: c.Elapsed}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.elapsed += d
}

// step sets the wall clock, as an operator or a time server does.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// seen returns operation n as accepted by a caller that had seen a position.
func seen(n int, at dbaas.Seq, statement string) dbaas.Operation {
	o := op(n, statement)
	o.SeenSeq = at
	return o
}

func trim(t *testing.T, s *commitlog.Store) int {
	t.Helper()
	n, err := s.Trim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The policy trims entries that are too old or too many, but never the newest, and no young ones unless the disk may
// fill up.
func TestRetention_Trimmable(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	policy := commitlog.Retention{For: h, Ops: 100, Bytes: 1000}
	for _, tc := range []struct {
		ages  []time.Duration
		ops   int
		bytes int64
		want  int
	}{
		{nil, 0, 0, 0},
		{[]time.Duration{5 * h}, 1, 1, 0},
		{[]time.Duration{5 * h, 4 * h}, 1, 1, 1},
		{[]time.Duration{h + s, h, m, 0}, 1, 1, 1},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 60, 1, 2},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 50, 1, 1},
		{[]time.Duration{9 * m, 8 * m}, 50, 1, 0},
		{[]time.Duration{m, 59 * s, 58 * s, 57 * s}, 60, 1, 1},
		{[]time.Duration{30 * s, 20 * s, 10 * s}, 1000, 1, 0},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 1, 500, 1},
		{[]time.Duration{9 * m, 8 * m, 7 * m}, 1, 333, 0},
		{[]time.Duration{9 * m, 5 * s, 4 * s}, 1, 600, 1},
		{[]time.Duration{9 * s, 8 * s, 7 * s, 6 * s}, 1, 500, 0},
		{[]time.Duration{9 * s, 8 * s, 7 * s, 6 * s}, 1, 600, 1},
		{[]time.Duration{s, 0}, 1, 5000, 1},
	} {
		if got := commitlog.Trimmable(policy, tc.ages, tc.ops, tc.bytes); got != tc.want {
			t.Errorf("ages %v with %d operations and %d bytes each: got %d, want %d", tc.ages, tc.ops, tc.bytes, got, tc.want)
		}
	}
}

// Trimmed entries are gone for readers. An operation that may have been in one is refused and not run again, also after
// reopening.
func TestStore_Trim_ForgottenOperationIsRefused(t *testing.T) {
	clk := newClock()
	dir := t.TempDir()
	s := reopen(t, clk.config(dir))
	epoch := storetest.Claim(t, s)
	for n := range 5 {
		storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d','x')", n)))
		clk.advance(30 * time.Minute)
	}
	if n := trim(t, s); n != 3 { // entries are 150, 120, 90, 60 and 30 minutes old.
		t.Fatalf("trimmed %d, want 3", n)
	}
	storetest.Commit(t, s, epoch, seen(9, 5, "DELETE FROM users"))
	check := func() {
		t.Helper()
		for after, gone := range map[dbaas.Seq]bool{0: true, 2: true, 3: false, 4: false} {
			if page, err := s.Log(t.Context(), after, 0); errors.Is(err, dbaas.ErrGone) != gone || page.First != 4 {
				t.Errorf("log after %d: got first %d, %v, want first 4, gone %v", after, page.First, err, gone)
			}
		}
		if _, err := s.Lookup(t.Context(), storetest.ID(2)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
			t.Errorf("lookup of a trimmed operation: got %v", err)
		}
		for _, tc := range []struct {
			op   dbaas.Operation
			want string
		}{
			{seen(2, 2, "INSERT INTO users VALUES('u2','x')"), "refused expired"},
			{seen(3, 0, "INSERT INTO users VALUES('u3','x')"), "ok"}, // still known: its old answer.
			{seen(50, 0, ann), "refused expired"},
			{seen(51, 2, ann), "refused expired"},
			{seen(52, 3, "SELECT 1"), "ok"},
		} {
			c := storetest.Commit(t, s, epoch, tc.op)
			if got := outcome(c.Results[0]); got != tc.want {
				t.Errorf("operation accepted at %d: got %s, want %s", tc.op.SeenSeq, got, tc.want)
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
	s = reopen(t, clk.config(dir))
	check()
	closeStore(t, s)
}

// A log of more entries than one chunk is trimmed to its newest entry, and continues to work.
func TestStore_Trim_Everything(t *testing.T) {
	clk := newClock()
	s := open(t, clk.config(""))
	epoch := storetest.Claim(t, s)
	const entries = 300
	for n := range entries {
		storetest.Commit(t, s, epoch, op(n, "UPDATE users SET password=''"))
	}
	clk.advance(2 * time.Hour)
	if n := trim(t, s); n != entries-1 {
		t.Fatalf("trimmed %d, want %d", n, entries-1)
	}
	c := storetest.Commit(t, s, epoch, seen(entries, entries, ann))
	if c.Entry.Seq != entries+1 {
		t.Errorf("got entry %d, want %d", c.Entry.Seq, entries+1)
	}
	page, err := s.Log(t.Context(), entries-1, 0)
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("got %d entries, %v, want 2", len(page.Entries), err)
	}
}

// A wall clock that steps, briefly or permanently, neither makes operations fail nor changes which entries are trimmed.
func TestStore_Trim_ClockSteps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, steps := range map[string][2]time.Duration{
		"Back":            {-year, 0},
		"Forward":         {year, 0},
		"ForwardAndBack":  {year, -year},
		"BackAndForward":  {-3 * time.Hour, 3 * time.Hour},
		"BackALittle":     {-2 * time.Minute, 0},
		"BackTwice":       {-year, -year},
		"ForwardAndAgain": {year, year},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			cfg := clk.config(t.TempDir())
			cfg.Retain.Ops = 3
			s := reopen(t, cfg)
			epoch := storetest.Claim(t, s)
			head, n := dbaas.Seq(0), 0
			commit := func() {
				t.Helper()
				n++
				c := storetest.Commit(t, s, epoch, seen(n, head, "UPDATE users SET password=''"))
				if c.Entry == nil {
					t.Fatalf("operation %d: %s", n, outcome(c.Results[0]))
				}
				head = c.Entry.Seq
				clk.advance(10 * time.Minute)
			}
			for range 5 {
				commit()
			}
			for _, step := range steps {
				clk.step(step)
				commit()
				if got := trim(t, s); n == 6 && got != 3 || n == 7 && got != 1 {
					t.Errorf("%d entries trimmed after operation %d", got, n)
				}
			}
			closeStore(t, s)
			s = reopen(t, cfg)
			if got := trim(t, s); got != 0 {
				t.Errorf("%d entries trimmed right after the open", got)
			}
			commit()
			if got := trim(t, s); got != 1 {
				t.Errorf("%d entries trimmed after the open and one more, want 1", got)
			}
			closeStore(t, s)
		})
	}
}

// The log stays within its bytes, and trims young entries only above twice that.
func TestStore_Trim_Bytes(t *testing.T) {
	clk := newClock()
	cfg := clk.config("")
	cfg.Retain.Bytes = 100_000
	s := open(t, cfg)
	epoch := storetest.Claim(t, s)
	insert := func(n int) {
		t.Helper()
		storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', 30000, 'x'))", n)))
	}
	for n := range 5 {
		insert(n)
	}
	if n := trim(t, s); n != 0 {
		t.Errorf("%d young entries trimmed at 1.5 times the bound", n)
	}
	for n := range 5 {
		insert(5 + n)
	}
	if n := trim(t, s); n != 4 {
		t.Errorf("%d young entries trimmed at 3 times the bound, want 4", n)
	}
	clk.advance(2 * time.Minute)
	if n := trim(t, s); n != 3 {
		t.Errorf("%d entries trimmed after two minutes, want 3", n)
	}
}

// A log that grows past twice its bytes is trimmed without waiting for the next periodic check.
func TestStore_Trim_TooLongIsTrimmedAtOnce(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir(), TrimEvery: time.Hour, Retain: commitlog.Retention{Bytes: 10_000}}
	s, err := commitlog.Open(t.Context(), unhurried(app(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	epoch := storetest.Claim(t, s)
	for n := range 3 {
		storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', 9000, 'x'))", n)))
	}
	for _, err = s.Log(t.Context(), 0, 0); !errors.Is(err, dbaas.ErrGone); _, err = s.Log(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	closeStore(t, s)
}

// The times of entries never go back, even if the clock does.
func TestStore_Commit_ClockGoesBack(t *testing.T) {
	clk := newClock()
	s := open(t, clk.config(""))
	epoch := storetest.Claim(t, s)
	first := storetest.Entry(t, storetest.Commit(t, s, epoch, op(1, ann)))
	clk.step(-time.Hour)
	second := storetest.Entry(t, storetest.Commit(t, s, epoch, op(2, bob)))
	if second.At.Before(first.At) {
		t.Errorf("entry 2 is of %v, entry 1 of %v", second.At, first.At)
	}
}
