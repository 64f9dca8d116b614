package apicount_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite" // The driver of dbtest.

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/service/apicount"
	"rideshare/internal/testkit/dbtest"
	"rideshare/internal/testkit/testenv"
)

var discard = slog.New(slog.DiscardHandler)

const stored = "SELECT count FROM apicount WHERE service_name = 'users'"

func newCounter(t *testing.T, db *dbtest.DB) *apicount.Counter {
	t.Helper()
	client, err := dbclient.New(dbclient.Config{URL: db.URL, BreakAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := apicount.New(apicount.Config{Service: "users", DB: client, Log: discard, Interval: time.Millisecond})
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // Some tests close it themselves.
	return c
}

func value(t *testing.T, c *apicount.Counter) int64 {
	t.Helper()
	n, _, err := c.Value(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Value includes every request that was counted before it, also those of other instances.
func TestCounter_Value_IsExactAndShared(t *testing.T) {
	db := dbtest.New(t)
	one, two := newCounter(t, db), newCounter(t, db)
	if n := value(t, one); n != 0 {
		t.Errorf("at first: got %d, want 0", n)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				one.Add()
			}
		})
	}
	wg.Wait()
	two.Add()
	if n := value(t, two); n < 1 || n > 1001 {
		t.Errorf("second instance: got %d, want its own and some of the other's", n)
	}
	if n := value(t, one); n != 1001 {
		t.Errorf("got %d, want 1001", n)
	}
}

// Counts reach the table without a call of Value.
func TestCounter_Add_IsWrittenInTheBackground(t *testing.T) {
	db := dbtest.New(t)
	c := newCounter(t, db)
	c.Add()
	testenv.Eventually(t, time.Minute, func() error {
		if got := db.Text(t, stored); got != "1" {
			return fmt.Errorf("got %q, want 1", got)
		}
		return nil
	})
}

// Reset starts at 0 whatever was pending, and leaves other services alone.
func TestCounter_Reset(t *testing.T) {
	db := dbtest.New(t)
	db.Exec(t, "INSERT INTO apicount VALUES('rides', 7)")
	c := newCounter(t, db)
	for range 3 {
		c.Add()
	}
	if _, err := c.Reset(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	c.Add()
	if n := value(t, c); n != 1 {
		t.Errorf("got %d, want the one after the reset", n)
	}
	if n := db.Text(t, "SELECT count FROM apicount WHERE service_name = 'rides'"); n != "7" {
		t.Errorf("rides: got %s, want 7", n)
	}
}

// Close writes what is pending.
func TestCounter_Close_LosesNothing(t *testing.T) {
	db := dbtest.New(t)
	c := newCounter(t, db)
	for range 50 {
		c.Add()
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := db.Text(t, stored); got != "50" {
		t.Errorf("got %s, want 50", got)
	}
}

// A write whose answer was lost counts exactly once, whether or not it was done.
func TestCounter_UnknownOutcome_CountsOnce(t *testing.T) {
	for _, fault := range []dbtest.Fault{dbtest.Lose, dbtest.LoseAnswer, dbtest.Vague, dbtest.Refuse} {
		db := dbtest.New(t)
		c := newCounter(t, db)
		db.SetFault(func(string) dbtest.Fault { return fault })
		c.Add()
		c.Add()
		if _, _, err := c.Value(t.Context(), 0); err == nil {
			t.Errorf("fault %d: got a value, want an error", fault)
		}
		c.Add()
		if _, err := c.Reset(t.Context(), ""); err == nil {
			t.Errorf("fault %d: got a reset, want an error", fault)
		}
		db.SetFault(nil)
		if n := value(t, c); n != 3 {
			t.Errorf("fault %d: got %d, want 3", fault, n)
		}
	}
}

// keyedDB keeps the outcome of each key, as persdb does. Its first write fails for good.
type keyedDB struct {
	fakeDB

	failed string
}

func (k *keyedDB) Execute(_ context.Context, o dbclient.Options, _ ...dbaas.Statement) (dbclient.Answer, error) {
	if k.failed = cmp.Or(k.failed, o.Key); o.Key == k.failed {
		return dbclient.Answer{Seq: 1}, dbaas.Errorf(dbaas.CodeUnavailable, "execute timeout")
	}
	return dbclient.Answer{Seq: 2}, nil
}

// A write that the database has recorded as failed is written again under another key.
func TestCounter_RecordedFailure_IsWrittenAgain(t *testing.T) {
	c := apicount.New(apicount.Config{Service: "users", DB: &keyedDB{}, Log: discard})
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // nothing is left to write
	c.Add()
	_, _ = c.Reset(t.Context(), "") // the failure, or it comes in the background
	if _, err := c.Reset(t.Context(), ""); err != nil {
		t.Errorf("the failure came again: %v", err)
	}
}

// fakeDB answers every write with answer and counts them.
type fakeDB struct {
	answer func(ctx context.Context) error

	mu     sync.Mutex // guards writes
	writes int
}

func (f *fakeDB) Execute(ctx context.Context, _ dbclient.Options, _ ...dbaas.Statement) (dbclient.Answer, error) {
	f.mu.Lock()
	f.writes++
	f.mu.Unlock()
	return dbclient.Answer{}, f.answer(ctx)
}

func (f *fakeDB) Query(context.Context, dbclient.Options, ...dbaas.Statement) (dbclient.Answer, error) {
	return dbclient.Answer{}, nil
}

func (f *fakeDB) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// A request per millisecond for a second costs about ten writes, not a thousand.
func TestCounter_WritesAtMostOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{answer: func(context.Context) error { return nil }}
		c := apicount.New(apicount.Config{Service: "users", DB: db, Log: discard})
		for range 1000 {
			c.Add()
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		if n := db.written(); n < 9 || n > 11 {
			t.Errorf("got %d writes in a second, want about 10", n)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Callers of Value do not wait for each other for ever while the database is silent.
func TestCounter_DatabaseSilent_ValuesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{answer: func(ctx context.Context) error {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return dbaas.ErrUnavailable
		}}
		c := apicount.New(apicount.Config{Service: "users", DB: db, Log: slog.New(slog.DiscardHandler)})
		c.Add()
		began := time.Now()
		var callers sync.WaitGroup
		for range 12 {
			callers.Go(func() {
				if _, _, err := c.Value(t.Context(), 0); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
					t.Errorf("got %v, want %q", err, dbaas.CodeUnavailable)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the last of 12 callers was answered after %v", took)
		}
		_ = c.Close(t.Context())
	})
}

// While the database is not available, attempts become rare, one log line reports the start, and one the end.
func TestCounter_DatabaseAway_BacksOffAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		var logs strings.Builder
		db := &fakeDB{answer: func(context.Context) error {
			if away.Load() {
				return dbaas.ErrUnavailable
			}
			return nil
		}}
		c := apicount.New(apicount.Config{Service: "users", DB: db, Log: slog.New(slog.NewJSONHandler(&logs, nil))})
		c.Add()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := db.written(); n < 5 || n > 25 {
			t.Errorf("got %d tries in a minute, want some, and few", n)
		}
		away.Store(false)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Count(logs.String(), "\n"); got != 2 {
			t.Errorf("got %d lines, want 2:\n%s", got, logs.String())
		}
	})
}

// Close ends with its context when the database hangs, and returns an error.
func TestCounter_Close_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{answer: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		c := apicount.New(apicount.Config{Service: "users", DB: db, Log: discard})
		c.Add()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); err == nil {
			t.Error("got nil, want an error")
		}
	})
}

// Close waits for a write in flight instead of abandoning and resending it, which the database would refuse as still
// running.
func TestCounter_Close_LetsTheWriteUnderWayFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		db := &fakeDB{answer: func(ctx context.Context) error {
			select {
			case <-answer:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		c := apicount.New(apicount.Config{Service: "users", DB: db, Log: discard})
		c.Add()
		synctest.Wait()
		go close(answer)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if n := db.written(); n != 1 {
			t.Errorf("got %d writes, want 1", n)
		}
	})
}
