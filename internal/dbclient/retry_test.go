package dbclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
)

// codes are the errors of attempts that ended so.
var codes = map[dbclient.End]dbaas.Code{
	dbclient.Answered: dbaas.CodeConstraint, dbclient.Gone: dbaas.CodeUnavailable, dbclient.Busy: dbaas.CodeQuota,
	dbclient.Unavailable: dbaas.CodeUnavailable, dbclient.Running: dbaas.CodeConflict, dbclient.Lost: dbaas.CodeUnknown,
	dbclient.Elsewhere: dbaas.CodeUnknown,
}

// offline returns a client that calls nobody.
func offline(t *testing.T, breakAfter int) *dbclient.Client {
	t.Helper()
	c, err := dbclient.New(dbclient.Config{URL: "http://nobody", BreakAfter: breakAfter})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const ok = dbclient.End(-1) // an attempt that succeeded

// What is sent again, how often, and which error counts in the end.
func TestClient_Repeat(t *testing.T) {
	for _, tt := range []struct {
		name     string
		write    bool
		ends     []dbclient.End
		attempts int
		want     dbaas.Code
	}{
		{"ReadRefused", false, []dbclient.End{dbclient.Busy, dbclient.Unavailable, ok}, 3, dbaas.CodeOK},
		{"ThreeAttempts", false, []dbclient.End{dbclient.Unavailable, dbclient.Unavailable, dbclient.Busy, ok}, 3, dbaas.CodeQuota},
		{"ReadLost", false, []dbclient.End{dbclient.Lost, ok}, 1, dbaas.CodeUnknown},
		{"Answer", true, []dbclient.End{dbclient.Answered, ok}, 1, dbaas.CodeConstraint},
		{"CallerGone", true, []dbclient.End{dbclient.Gone, ok}, 1, dbaas.CodeUnavailable},
		{"WriteLost", true, []dbclient.End{dbclient.Lost, dbclient.Running, ok}, 3, dbaas.CodeOK},
		{"WriteLostThenRefused", true, []dbclient.End{dbclient.Lost, dbclient.Unavailable, dbclient.Busy}, 3, dbaas.CodeUnknown},
		{"WriteLostThenGone", true, []dbclient.End{dbclient.Lost, dbclient.Gone}, 2, dbaas.CodeUnknown},
		{"WriteLostThenOurFault", true, []dbclient.End{dbclient.Lost, dbclient.Answered}, 2, dbaas.CodeUnknown},
		{"WriteRunningThenRefused", true, []dbclient.End{dbclient.Running, dbclient.Unavailable, dbclient.Busy}, 3, codes[dbclient.Running]},
		{"WriteElsewhere", true, []dbclient.End{dbclient.Elsewhere, ok}, 2, dbaas.CodeOK},
		{"WriteElsewhereThenRefused", true, []dbclient.End{dbclient.Elsewhere, dbclient.Unavailable, dbclient.Busy}, 3, dbaas.CodeUnknown},
		{"ReadElsewhere", false, []dbclient.End{dbclient.Elsewhere, ok}, 1, dbaas.CodeUnknown},
		{"WriteRefusedThenLost", true, []dbclient.End{dbclient.Unavailable, dbclient.Unavailable, dbclient.Lost}, 3, dbaas.CodeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := 0
				err := offline(t, 0).Repeat(t.Context(), tt.write, time.Now().Add(time.Minute), func() (dbclient.End, error) {
					how := tt.ends[made]
					if made++; how == ok {
						return dbclient.Answered, nil
					}
					return how, &dbaas.Error{Code: codes[how], Message: "x"}
				})
				if dbaas.CodeOf(err) != tt.want || made != tt.attempts {
					t.Errorf("got %v after %d attempts, want %q after %d", err, made, tt.want, tt.attempts)
				}
			})
		})
	}
}

// The client waits at random for up to 50 ms, then 100 ms, and at least for as long as the server asks. It does not wait past
// the deadline.
func TestClient_Repeat_Waits(t *testing.T) {
	for _, tt := range []struct {
		after, deadline, least, most time.Duration
		attempts                     int
	}{
		{0, time.Minute, 0, 150 * time.Millisecond, 3},
		{3 * time.Second, time.Minute, 6 * time.Second, 6150 * time.Millisecond, 3},
		{3 * time.Second, 5 * time.Second, 3 * time.Second, 3050 * time.Millisecond, 2},
		{3 * time.Second, time.Second, 0, 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, made := time.Now(), 0
			err := offline(t, 0).Repeat(t.Context(), false, start.Add(tt.deadline), func() (dbclient.End, error) {
				made++
				return dbclient.Busy, &dbaas.Error{Code: dbaas.CodeQuota, Message: "x", RetryAfter: tt.after}
			})
			took := time.Since(start)
			if dbaas.CodeOf(err) != dbaas.CodeQuota || made != tt.attempts || took < tt.least || took > tt.most {
				t.Errorf("Retry-After %v, deadline %v: got %v after %d attempts and %v, want %d attempts and %v to %v", tt.after, tt.deadline, err, made, took, tt.attempts, tt.least, tt.most)
			}
		})
	}
}

// Retries are at most a tenth of the calls of the last 10 s, and at least 100.
func TestClient_Repeat_Budget(t *testing.T) {
	for _, tt := range []struct{ perSecond, least, most int }{{1000, 10_900, 11_000}, {10, 200, 200}, {4, 120, 120}} {
		synctest.Test(t, func(t *testing.T) {
			c, made := offline(t, -1), atomic.Int64{}
			var wg sync.WaitGroup
			for range 10 * tt.perSecond {
				wg.Go(func() {
					_ = c.Repeat(t.Context(), false, time.Now().Add(time.Minute), func() (dbclient.End, error) {
						made.Add(1)
						return dbclient.Unavailable, &dbaas.Error{Code: dbaas.CodeUnavailable, Message: "x"}
					})
				})
				time.Sleep(time.Second / time.Duration(tt.perSecond))
			}
			if got := int(made.Load()); got < tt.least || got > tt.most {
				t.Errorf("%d calls a second for 10 s: got %d attempts, want %d to %d", tt.perSecond, got, tt.least, tt.most)
			}
			wg.Wait()
		})
	}
}

// After ten failures in a row the client makes no attempt for a second, then one. Reads that fail do not stop writes.
func TestClient_Repeat_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, made := offline(t, 0), 0
		how := dbclient.Answered
		call := func(write bool) error {
			return c.Repeat(t.Context(), write, time.Now(), func() (dbclient.End, error) {
				if made++; how == dbclient.Answered {
					return how, nil
				}
				return how, &dbaas.Error{Code: codes[how], Message: "x"}
			})
		}
		calls := func(count, want int) {
			t.Helper()
			made = 0
			for range count {
				if err := call(false); how != dbclient.Answered && dbaas.CodeOf(err) == dbaas.CodeOK {
					t.Errorf("got %v, want an error", err)
				}
			}
			if made != want {
				t.Errorf("%d calls: got %d attempts, want %d", count, made, want)
			}
		}
		how = dbclient.Unavailable
		calls(9, 9)
		how = dbclient.Answered
		calls(1, 1)
		how = dbclient.Lost
		calls(20, 10)
		if err := call(false); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("while broken: got %v, want CodeUnavailable", err)
		}
		if err := call(true); dbaas.CodeOf(err) != dbaas.CodeUnknown {
			t.Errorf("a write: got %v, want an attempt", err)
		}
		time.Sleep(time.Second)
		calls(5, 1)
		time.Sleep(time.Second)
		how = dbclient.Gone
		calls(2, 2) // the caller of a probe that leaves says nothing
		how = dbclient.Answered
		calls(5, 5)
		if got := c.Outcomes(); got.Broken != 10+1+4 {
			t.Errorf("got outcomes %+v, want 15 broken", got)
		}
	})
}

// A retry that the open breaker refuses was not made: it counts neither as a retry nor against the budget.
func TestClient_Repeat_BrokenIsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := offline(t, 1)
		const rounds, calls = 3, 100 // In each round all that the budget has.
		for range rounds {
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					_ = c.Repeat(t.Context(), true, time.Now().Add(time.Minute), func() (dbclient.End, error) {
						time.Sleep(time.Millisecond) // of the fake clock: all calls have made their first attempt
						return dbclient.Unavailable, &dbaas.Error{Code: dbaas.CodeUnavailable, Message: "x"}
					})
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
			_ = c.Repeat(t.Context(), true, time.Now(), func() (dbclient.End, error) { return dbclient.Answered, nil })
		}
		if got, want := c.Outcomes(), (dbclient.Outcomes{Broken: rounds * calls}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// The probe is alone: another call at the same time makes no attempt.
func TestClient_Repeat_OneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := offline(t, 1)
		fail := func() (dbclient.End, error) {
			time.Sleep(time.Second)
			return dbclient.Unavailable, &dbaas.Error{Code: dbaas.CodeUnavailable, Message: "x"}
		}
		_ = c.Repeat(t.Context(), false, time.Now(), fail)
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		made := atomic.Int64{}
		for range 10 {
			wg.Go(func() {
				_ = c.Repeat(t.Context(), false, time.Now(), func() (dbclient.End, error) { made.Add(1); return fail() })
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Errorf("got %d attempts at the same time, want the probe only", made.Load())
		}
	})
}

// A refused client waits for the Retry-After of the header, which has a random second, also if the time in the body is shorter. Here
// that is past the deadline, so there is no second attempt. The caller gets the time in the body.
func TestClient_WaitsForRetryAfter(t *testing.T) {
	refusal := &dbaas.Error{Code: dbaas.CodeQuota, Message: "x", RetryAfter: time.Millisecond}
	sent := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		httpapi.WriteError(later{w}, r, false, refusal)
	}))
	t.Cleanup(server.Close)
	c, stmt := newClient(t, server.URL), dbclient.SQL("x")
	for name, call := range map[string]func() error{
		"read":  func() error { _, err := c.Query(t.Context(), dbclient.Options{}, stmt); return err },
		"write": func() error { _, err := c.Execute(t.Context(), dbclient.Options{}, stmt); return err },
		"rows": func() error {
			_, err := c.Rows(t.Context(), dbclient.Options{}, stmt, func(dbaas.Seq, []any) error { return nil })
			return err
		},
	} {
		sent.Store(0)
		before := c.Outcomes().NoTime
		e, _ := errors.AsType[*dbaas.Error](call())
		if sent.Load() != 1 || c.Outcomes().NoTime != before+1 || e == nil || e.Code != refusal.Code || e.RetryAfter != refusal.RetryAfter {
			t.Errorf("%s: got %#v after %d attempts, want %#v after one", name, e, sent.Load(), refusal)
		}
	}
}

// later asks the client to wait for longer than its timeout.
type later struct{ http.ResponseWriter }

func (l later) WriteHeader(status int) {
	l.Header().Set("Retry-After", "300")
	l.ResponseWriter.WriteHeader(status)
}

// A write is sent again with the same key and body, whatever its first attempts met. A read that was perhaps what broke the
// connection is sent once.
func TestClient_RepeatsOverHTTP(t *testing.T) {
	var keys, bodies []string // the client waits for each answer before its next request
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	done := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"results":[{"rows_affected":1}]}`)
	}
	for _, tt := range []struct {
		name     string
		write    bool
		answers  []http.HandlerFunc
		attempts int
		want     dbaas.Code
	}{
		{"WriteUnknown", true, []http.HandlerFunc{fails(dbaas.CodeUnknown), fails(dbaas.CodeConflict), done}, 3, dbaas.CodeOK},
		{"WriteCut", true, []http.HandlerFunc{cut, fails(dbaas.CodeQuota), done}, 3, dbaas.CodeOK},
		{"WriteRefused", true, []http.HandlerFunc{fails(dbaas.CodeQuota), fails(dbaas.CodeUnavailable), fails(dbaas.CodeQuota)}, 3, dbaas.CodeQuota},
		{"WriteFull", true, []http.HandlerFunc{fails(dbaas.CodeFull)}, 1, dbaas.CodeFull},
		{"WriteInvalid", true, []http.HandlerFunc{fails(dbaas.CodeMismatch)}, 1, dbaas.CodeMismatch},
		{"ReadRefused", false, []http.HandlerFunc{fails(dbaas.CodeUnavailable), fails(dbaas.CodeQuota), done}, 3, dbaas.CodeOK},
		{"ReadNotCaughtUp", false, []http.HandlerFunc{fails(dbaas.CodeNotCaughtUp)}, 1, dbaas.CodeNotCaughtUp},
		{"ReadTimeout", false, []http.HandlerFunc{fails(dbaas.CodeTimeout)}, 1, dbaas.CodeTimeout},
		{"ReadCut", false, []http.HandlerFunc{cut}, 1, dbaas.CodeUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			keys, bodies = nil, nil
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
				tt.answers[min(len(keys), len(tt.answers))-1](w, r)
			}))
			c, call := newClient(t, server.URL), (*dbclient.Client).Query
			if tt.write {
				call = (*dbclient.Client).Execute
			}
			_, err := call(c, t.Context(), dbclient.Options{}, dbclient.SQL("x"))
			server.Close() // waits for the handlers
			if dbaas.CodeOf(err) != tt.want || len(keys) != tt.attempts {
				t.Errorf("got %v after %d requests, want %q after %d", err, len(keys), tt.want, tt.attempts)
			}
			if keys, bodies = slices.Compact(keys), slices.Compact(bodies); len(keys) != 1 || len(bodies) != 1 || (keys[0] != "") != tt.write {
				t.Errorf("got keys %q and bodies %q, want one of each", keys, bodies)
			}
		})
	}
}
