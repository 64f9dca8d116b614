package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"

	"github.com/google/go-cmp/cmp"
)

// instances opens n stores on one log, each in a new folder. The first one is the active one.
func instances(t *testing.T, n int, cfg pglog.Config) []*commitlog.Store {
	t.Helper()
	var stores []*commitlog.Store
	for i := range n {
		s := storeOn(t, t.TempDir(), cfg)
		closed(t, s)
		if s.Active() != (i == 0) {
			t.Fatalf("store %d is active: %t", i, s.Active())
		}
		stores = append(stores, s)
	}
	return stores
}

// wantFollowed waits until a store has the tables of another one.
func wantFollowed(t *testing.T, from, to *commitlog.Store) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		want, err := from.Hashes(t.Context())
		if err != nil {
			return err
		}
		got, err := to.Hashes(t.Context())
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("tables (-first +second):\n%s", diff)
		}
		return err
	})
}

// following is a store that is not active. It refuses to show the log when it has not followed for a second, as on a slow
// machine.
type following struct {
	*commitlog.Store
	t *testing.T
}

// Log waits until the store shows the log.
func (s following) Log(ctx context.Context, after dbaas.Seq, patience time.Duration) (dbaas.Page, error) {
	return onceFollowing(s.t, func() (dbaas.Page, error) { return s.Store.Log(ctx, after, patience) })
}

// Snapshot waits until the store gives a snapshot.
func (s following) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	return onceFollowing(s.t, func() (*dbaas.Snapshot, error) { return s.Store.Snapshot(ctx) })
}

func onceFollowing[T any](t *testing.T, ask func() (T, error)) (out T, err error) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		if out, err = ask(); dbaas.IsNotActive(err) {
			return err
		}
		return nil
	})
	return out, err
}

// claimStore claims an epoch of a store whose statements may take too long on a busy machine.
func claimStore(t *testing.T, s *commitlog.Store) dbaas.Epoch {
	t.Helper()
	var epoch dbaas.Epoch
	testenv.Eventually(t, soon, func() (err error) {
		epoch, err = s.Claim(t.Context())
		return err
	})
	return epoch
}

// An instance that is not active refuses what decides, serves what it has, follows, and takes over with all of it, under
// the same epoch. The other one then refuses, and does not take the log back.
func TestStore_Instances_TakeOver(t *testing.T) {
	stores := instances(t, 2, config(pgtest.Shared(t)))
	a, b := stores[0], stores[1]
	by := dbaas.Leadership{Epoch: storetest.Claim(t, a)}
	first := storetest.Op(1, "INSERT INTO users VALUES('ann','x')")
	storetest.Commit(t, a, by.Epoch, first)
	wantRefusals(t, b, by, first)
	wantFollowed(t, a, b)
	if page, err := (following{b, t}).Log(t.Context(), 0, 0); err != nil || len(page.Entries) != 1 {
		t.Errorf("log of the second: got %d entries, %v, want 1", len(page.Entries), err)
	}
	storetest.NewReplica(t, following{b, t}).Follow(t, following{b, t})
	if err := b.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := storetest.Commit(t, b, by.Epoch, storetest.Op(2, "INSERT INTO users VALUES('bob','x')"), first); c.Results[0].Seq != 2 || c.Results[1].Seq != 1 {
		t.Errorf("got positions %d and %d, want 2 and 1", c.Results[0].Seq, c.Results[1].Seq)
	}
	// The first one still takes itself for the active one, and knows less than it must to say "not done".
	late := storetest.Op(2, "INSERT INTO users VALUES('bob','x')")
	late.Deadline = time.Now().Add(-time.Hour)
	wantRefusals(t, a, by, late, storetest.Op(3, "SELECT * FROM users"))
	wantFollowed(t, b, a)
}

// wantRefusals fails the test unless a store that is not active refuses the calls that decide.
func wantRefusals(t *testing.T, s *commitlog.Store, by dbaas.Leadership, ops ...dbaas.Operation) {
	t.Helper()
	for _, op := range ops {
		_, err := s.Commit(t.Context(), by, []dbaas.Operation{op})
		wantNotActive(t, err)
	}
	_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: by.Epoch + 1}, ops)
	wantNotActive(t, err)
	_, err = s.Claim(t.Context())
	wantNotActive(t, err)
	_, err = s.Head(t.Context())
	wantNotActive(t, err)
	for n := range 3 {
		_, err = s.Lookup(t.Context(), storetest.ID(n))
		wantNotActive(t, err)
	}
	_, err = s.Log(t.Context(), 1000, 0)
	wantNotActive(t, err)
	if n, failed := s.Trim(t.Context()); n != 0 || failed != nil {
		t.Errorf("trimmed %d entries, %v, want none", n, failed)
	}
	testenv.Eventually(t, soon, func() error { // It is not ready when it has not followed for a second.
		r, failed := s.Ready(t.Context())
		if r.Active {
			t.Errorf("readiness: got %+v, want one that is not active", r)
		}
		return failed
	})
}

// A store that was taken over from does not refuse the newest epoch as an old one.
func TestStore_Instances_NewerEpochElsewhere(t *testing.T) {
	stores := instances(t, 2, config(pgtest.Shared(t)))
	storetest.Claim(t, stores[0])
	if err := stores[1].TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	by := dbaas.Leadership{Epoch: storetest.Claim(t, stores[1])}
	_, err := stores[0].Commit(t.Context(), by, []dbaas.Operation{storetest.Op(1, "SELECT 1")})
	wantNotActive(t, err)
}

// A store that was just taken over from leaves the log to the other one for a while.
func TestStore_Instances_Hold(t *testing.T) {
	stores := instances(t, 2, config(pgtest.Shared(t)).WithHold(time.Hour))
	if err := stores[1].TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := stores[0].Head(t.Context())
	wantNotActive(t, err)
	wantNotActive(t, stores[0].TakeOver(t.Context()))
	storetest.Claim(t, stores[1])
}

// A store that lost its connection while another one was active, and has ended since, does not take the log back by itself: it
// would answer from what it knew before.
func TestStore_Instances_NoneActive_NotTakenBack(t *testing.T) {
	p := pgtest.Shared(t)
	wire := testenv.NewNetwork(t, p.Primary(t))
	cfg := config(p).WithHold(time.Nanosecond)
	cfg.URL = p.Through(t, wire.Addr())
	stores := instances(t, 1, cfg)
	a := stores[0]
	by := storetest.Claim(t, a)
	storetest.Commit(t, a, by, storetest.Op(1, "INSERT INTO users VALUES('ann','x')"))
	wire.Cut()
	wire.Reset()
	b := storeOn(t, t.TempDir(), config(p))
	if err := b.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := storetest.Op(2, "INSERT INTO users VALUES('bob','x')")
	storetest.Commit(t, b, by, second)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wire.Heal()
	refused := func(call func() error) {
		t.Helper()
		testenv.Eventually(t, soon, func() error {
			if err := call(); !dbaas.IsNotActive(err) {
				return fmt.Errorf("got %w, want %w", err, dbaas.ErrNotActive)
			}
			return nil
		})
	}
	refused(func() error {
		h, err := a.Head(t.Context())
		if err == nil && h.Seq < 2 {
			t.Fatalf("got head %d, want 2", h.Seq)
		}
		return err
	})
	refused(func() error { _, err := a.Lookup(t.Context(), second.ID); return err })
	if err := a.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h, err := a.Head(t.Context()); err != nil || h.Seq != 2 {
		t.Errorf("got head %d, %v, want 2", h.Seq, err)
	}
}

// A store that lost its connection while another one was made the active one learns of that without a call, and follows.
func TestStore_Instances_IdleLearnsOfTheTakeOver(t *testing.T) {
	p := pgtest.Shared(t)
	wire := testenv.NewNetwork(t, p.Primary(t))
	cfg := config(p)
	cfg.URL = p.Through(t, wire.Addr())
	a := instances(t, 1, cfg)[0]
	by := storetest.Claim(t, a)
	wire.Cut()
	wire.Reset()
	testenv.Eventually(t, soon, func() error {
		if _, err := a.Head(t.Context()); err == nil {
			return errors.New("the store still reaches its log")
		}
		return nil
	})
	b := storeOn(t, t.TempDir(), config(p))
	closed(t, b)
	if err := b.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, b, by, storetest.Op(1, "INSERT INTO users VALUES('ann','x')"))
	wire.Heal()
	testenv.Eventually(t, soon, func() error {
		if a.Active() {
			return errors.New("the store still takes itself for the active one")
		}
		return nil
	})
	wantFollowed(t, b, a)
}

// After an append whose answer was lost, Head has its entry: a store that follows may have shown it already.
func TestStore_Instances_HeadHasWhatOthersShow(t *testing.T) {
	p := pgtest.Shared(t)
	wire := testenv.NewNetwork(t, p.Primary(t))
	cfg := config(p).Slow()
	cfg.URL = p.Through(t, wire.Addr())
	a := instances(t, 1, cfg)[0]
	by := claimStore(t, a)
	b := storeOn(t, t.TempDir(), config(p))
	closed(t, b)
	testenv.Eventually(t, soon, func() error {
		wire.Stall(testenv.ToClient)
		_, err := a.Commit(t.Context(), dbaas.Leadership{Epoch: by}, []dbaas.Operation{storetest.Op(1, "INSERT INTO users VALUES('ann','x')")})
		if dbaas.CodeOf(err) == dbaas.CodeUnknown {
			return nil
		}
		// The store's own check was on its way when the wire stalled. The append was not sent then.
		wire.Reset()
		wire.Heal()
		testenv.Eventually(t, soon, func() error {
			_, failed := a.Head(t.Context())
			return failed
		})
		return fmt.Errorf("got %w, want %q", err, dbaas.CodeUnknown)
	})
	testenv.Eventually(t, soon, func() error {
		page, failed := b.Log(t.Context(), 0, 0)
		if failed == nil && len(page.Entries) != 1 {
			failed = fmt.Errorf("the other store shows %d entries, want 1", len(page.Entries))
		}
		return failed
	})
	wire.Reset()
	wire.Heal()
	var head dbaas.Head
	testenv.Eventually(t, soon, func() (failed error) {
		head, failed = a.Head(t.Context())
		return failed
	})
	if head.Seq != 1 {
		t.Errorf("got head %d, want 1", head.Seq)
	}
}

// Two stores are made the active one in turn under load: each position has one content, and each operation one effect.
func TestStore_Instances_TakeOverUnderLoad(t *testing.T) {
	place := pgtest.Shared(t)
	stores := instances(t, 2, config(place).WithHold(time.Nanosecond))
	const operations = 60
	done := make(chan error, len(stores))
	for _, one := range stores { // both do all of the operations.
		go func() { done <- doAll(t.Context(), one, operations) }()
	}
	for range stores {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i, one := range stores {
		if err := one.TakeOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Commit(t, one, storetest.Claim(t, one), storetest.Op(operations+i, "DELETE FROM users WHERE username='nobody'"))
	}
	wantFollowed(t, stores[1], stores[0])
	page, err := following{stores[1], t}.Log(t.Context(), 0, 0)
	if err != nil || len(page.Entries) != operations+2 {
		t.Errorf("got %d entries, %v, want one for each operation: %d", len(page.Entries), err, operations+2)
	}
	t.Logf("the log was taken over %s times", place.Value(t, "SELECT fence FROM log_meta"))
}

// doAll commits operations one by one. It takes over whenever the other store is active, and claims an epoch whenever
// there is a newer one.
func doAll(ctx context.Context, s *commitlog.Store, operations int) error {
	epoch := dbaas.Epoch(0)
	for n := 0; n < operations; {
		op := storetest.Op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d','x')", n))
		c, err := s.Commit(ctx, dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op})
		if dbaas.CodeOf(err) == dbaas.CodeStaleEpoch {
			epoch, err = s.Claim(ctx)
		} else if err == nil {
			if c.Results[0].Code != dbaas.CodeOK || c.Results[0].Statements[0].Code != dbaas.CodeOK {
				return fmt.Errorf("operation %d has result %+v", n, c.Results[0])
			}
			n++
		}
		if err != nil {
			err = s.TakeOver(ctx)
		}
		if code := dbaas.CodeOf(err); code != dbaas.CodeOK && code != dbaas.CodeUnavailable && code != dbaas.CodeUnknown {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
