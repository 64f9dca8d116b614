package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/uptest"
)

const aRide = `{"time":217,"liftID":21}`

// A ride that the database refuses fails alone; the others of its batch are stored.
func TestBatch_BadRideFailsAlone(t *testing.T) {
	i := newInstance(t, uptest.Start(t), nil)
	a, err := i.db.Execute(t.Context(), db.Options{}, db.SQL("CREATE TRIGGER no13 BEFORE INSERT ON ski_rides WHEN new.lift_id = 13 BEGIN SELECT raise(ABORT, 'no lift 13'); END"))
	if err != nil || a.Results[0].Error != "" {
		t.Fatal(a, err)
	}
	var batch []*waiter
	for lift := 12; lift <= 14; lift++ {
		batch = append(batch, &waiter{ride: db.SQL("INSERT INTO ski_rides VALUES(1, 2025, 1, 1, ?, ?, 1, 0)", lift, lift), done: make(chan struct{})})
	}
	i.newBatcher(false).run(batch)
	for n, bad := range []bool{false, true, false} {
		<-batch[n].done
		if a, err := result(batch[n].answer, batch[n].err); (err != nil) != bad || a.Seq == "" {
			t.Errorf("ride %d: got %+v, %v", n, a, err)
		}
	}
	if n := i.rows(t, "true"); n != 2 {
		t.Errorf("got %d rows, want 2", n)
	}
	if r := i.want(t, "POST", post(1, 2025, 1, 1), `{"time":1,"liftID":13}`, 500, ""); !strings.Contains(r.body, "no lift 13") {
		t.Errorf("got %s, want the reason", r.body)
	}
	batch = nil
	for lift := 12; lift <= 14; lift++ {
		batch = append(batch, &waiter{ride: db.SQL("INSERT INTO ski_rides VALUES(1, 2025, 2, 1, ?, ?, 1, 0)", lift, lift), done: make(chan struct{})})
	}
	i.newBatcher(true).run(batch)
	id := strings.TrimSuffix(batch[0].answer.Operation, ".0")
	for n, status := range []string{"applied", "failed", "applied"} {
		r, o := i.await(t, batch[n].answer.Operation)
		if o.ID != fmt.Sprint(id, ".", n) || o.Status != status || r.header.Get("X-Seq") != o.Seq.String() || o.Seq == "" || len(o.Results) != 1 || o.Code != "" || strings.Contains(o.Detail, "no lift 13") != (n == 1) {
			t.Errorf("ride %d: got %s, want it %s", n, r.body, status)
		}
	}
	for _, n := range []string{".3", ".x", ".-1", ".+1", ".01", ".", ".0.0"} {
		i.want(t, "GET", "/writes/"+id+n, "", 404, "")
	}
	if r := i.want(t, "GET", "/writes/"+id, "", 200, ""); !strings.Contains(r.body, `"status":"failed"`) || r.header.Get("X-Seq") == "" {
		t.Errorf("the batch: got %s, want the database's answer", r.body)
	}
}

// forgetful is a database whose answers to writes are lost, some times, after the write was done.
func forgetful(t *testing.T, database string, lost *atomic.Int64) string {
	t.Helper()
	target, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/db/execute" && lost.Add(-1) >= 0 {
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // cuts the connection
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// A batch whose answer is lost is sent again; no ride is stored twice, also with respond-async.
func TestBatch_LostAnswers_NothingDoubled(t *testing.T) {
	var lost atomic.Int64
	i := newInstance(t, forgetful(t, uptest.Start(t), &lost), nil)
	lost.Store(4)
	var group sync.WaitGroup
	for skier := 1; skier <= 40; skier++ {
		group.Go(func() {
			if r, err := i.try(t.Context(), "POST", post(1, 2025, 1, skier), aRide); err != nil || r.status != http.StatusCreated {
				t.Errorf("got %v, %v, want 201", r, err)
			}
		})
	}
	group.Wait()
	if n := lost.Load(); n >= 0 {
		t.Errorf("%d answers were still to lose", n)
	}
	lost.Store(2)
	i.applied(t, i.want(t, "POST", post(1, 2025, 1, 41), aRide, 202, "", "Prefer", "respond-async"))
	for _, condition := range []string{"true", "skier_id BETWEEN 1 AND 41 AND ride_time = 217"} {
		if n := i.rows(t, condition); n != 41 {
			t.Errorf("%s: got %d rows, want 41", condition, n)
		}
	}
}

// await waits until an asynchronous ride is decided.
func (i *instance) await(t *testing.T, id string) (r reply, o operation) {
	t.Helper()
	testenv.Eventually(t, limit, func() error {
		r = i.ask(t, "GET", "/writes/"+id, "")
		err := json.Unmarshal([]byte(r.body), &o)
		if err == nil && o.Status != "applied" && o.Status != "failed" {
			err = fmt.Errorf("write %q: got %d %s, want it decided", id, r.status, r.body)
		}
		return err
	})
	return r, o
}

// applied waits until an asynchronous ride is stored.
func (i *instance) applied(t *testing.T, accepted reply) operation {
	t.Helper()
	id := accepted.header.Get("X-Operation-Id")
	if location := accepted.header.Get("Location"); accepted.status == http.StatusAccepted && location != "/writes/"+id {
		t.Errorf("got Location %q, want that of %q", location, id)
	}
	r, o := i.await(t, id)
	if o.Status != "applied" {
		t.Errorf("write %q: got %s, want it applied", id, r.body)
	}
	return o
}

// A ride whose outcome stays unknown is 504 at the deadline; one that was certainly not done is refused as the database did.
func TestIngest_Refusals(t *testing.T) {
	for _, tt := range []struct {
		database, want int
		retry, reason  string
		message        string
	}{
		{429, 429, "7", "user-rate", `{"message":"not now"}`},
		{503, 503, "7", "user-rate", `{"message":"not now"}`},
		{504, 504, "", "", `{"message":"not known whether the write was done"}`},
		{401, 500, "", "", `{"message":"the service cannot use the database"}`},
	} {
		for _, key := range []string{"", "k"} {
			var attempts atomic.Int64
			database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, "{}")
					return
				}
				w.Header().Set("Retry-After", "7")
				if attempts.Add(1) > 1 {
					w.WriteHeader(http.StatusServiceUnavailable) // It says nothing about the first attempt.
				} else {
					w.WriteHeader(tt.database)
				}
				_, _ = io.WriteString(w, `{"detail":"not now","reason":"user-rate"}`)
			}))
			deadline := time.Minute
			if tt.want == http.StatusGatewayTimeout {
				deadline = 2 * time.Second
			}
			client := db.New(database.URL, "skilift", "")
			if err := client.Operation(t.Context(), "any", new(any)); err != nil { // The ride finds the connection made.
				t.Error(err)
			}
			s := newService(t.Context(), config{ranges: defaultRanges(), batch: 100, deadline: deadline}, client)
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, post(1, 2025, 1, 1), strings.NewReader(aRide))
			r.Header.Set("Idempotency-Key", key)
			s.ServeHTTP(w, r)
			if w.Code != tt.want || w.Header().Get("Retry-After") != tt.retry || w.Header().Get("X-Reason") != tt.reason || strings.TrimSpace(w.Body.String()) != tt.message {
				t.Errorf("database %d, key %q: got %d %v %s", tt.database, key, w.Code, w.Header(), w.Body)
			}
			database.Close()
		}
	}
}

// The same key gets the first answer again, at any instance, also while the first still runs; with another body it is 422;
// at another path it is another ride.
func TestKeys_OneEffectOneAnswer(t *testing.T) {
	database := uptest.Start(t)
	instances := []*instance{newInstance(t, database, nil), newInstance(t, database, func(c *config) { c.async = true; c.batch = 1 })}
	key := []string{"Idempotency-Key", "a key of mine"}
	path := post(1, 2025, 1, 1)
	first := instances[0].want(t, "POST", path, aRide, 201, "{}", key...)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			r, err := instances[0].try(t.Context(), "POST", path, `{"liftID":21, "time":217, "waitTime":0}`, key...)
			if err != nil || r.status != http.StatusCreated || seqOf(t, r) != seqOf(t, first) {
				t.Errorf("got %v, %v, want the first answer", r, err)
			}
		})
	}
	group.Wait()
	if o := instances[1].applied(t, instances[1].want(t, "POST", path, aRide, 201, "{}", key...)); o.Seq.String() != first.header.Get("X-Seq") {
		t.Errorf("the other instance, async: got %+v, want the first ride", o)
	}
	instances[1].applied(t, instances[1].want(t, "POST", path, aRide, 202, "", append(key, "Prefer", "respond-async")...))
	instances[1].applied(t, instances[1].want(t, "POST", post(1, 2025, 3, 1), aRide, 201, "{}"))
	instances[0].want(t, "POST", path, `{"time":218,"liftID":21}`, 422, "", key...)
	instances[0].want(t, "POST", post(1, 2025, 2, 1), aRide, 201, "{}", key...)
	instances[0].want(t, "POST", path, aRide, 400, "", "Idempotency-Key", strings.Repeat("k", 256))
	for condition, want := range map[string]int64{"day_id = 1": 1, "day_id = 2": 1, "day_id = 3": 1} {
		if n := instances[0].rows(t, condition); n != want {
			t.Errorf("%s: got %d rows, want %d", condition, n, want)
		}
	}
}

// A repeated ride is stored once also if the database has the ride and no longer the answer to its key.
func TestKeys_AnswerForgotten_RideStaysOne(t *testing.T) {
	i := newInstance(t, uptest.Start(t), nil)
	sum := sha256.Sum256([]byte("1/2025/1/1/old"))
	a, err := i.db.Execute(t.Context(), db.Options{}, db.SQL("INSERT INTO ski_rides VALUES(1, 2025, 1, 1, ?, 21, 217, 0)", binary.BigEndian.Uint64(sum[:])>>2))
	if err != nil || a.Err() != nil {
		t.Fatal(a, err)
	}
	i.want(t, "POST", post(1, 2025, 1, 1), aRide, 201, "{}", "Idempotency-Key", "old")
	if n := i.rows(t, "true"); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// held is a batcher whose batches stay in flight until the test lets them go.
func held(size int) (*batcher, chan int, chan struct{}) {
	sent, release := make(chan int, 100), make(chan struct{})
	return &batcher{size: size, deadline: time.Minute, send: func(rides []db.Statement) (db.Answer, error) {
		sent <- len(rides)
		<-release
		return db.Answer{}, nil
	}}, sent, release
}

// A batch leaves when none is in flight, when it is full, or when its oldest ride is 100 ms old; 8 are in flight at most.
func TestBatcher_LeavesWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sent, release := held(10)
		submit := func(n int) {
			for range n {
				go func() { _, _ = b.submit(nil) }()
			}
			synctest.Wait()
		}
		want := func(sizes ...int) {
			t.Helper()
			synctest.Wait()
			for _, size := range sizes {
				if n := <-sent; n != size {
					t.Errorf("got a batch of %d, want %d", n, size)
				}
			}
			if len(sent) > 0 {
				t.Errorf("got a batch of %d, want none", <-sent)
			}
		}
		submit(1)
		want(1) // None was in flight.
		submit(9)
		want()
		submit(1)
		want(10) // It is full.
		submit(3)
		time.Sleep(maxAge - 1)
		want()
		time.Sleep(time.Nanosecond)
		want(3) // It is old.
		submit(60)
		want(10, 10, 10, 10, 10) // 8 are in flight.
		time.Sleep(2 * maxAge)
		want()
		release <- struct{}{}
		want(10)
		close(release)
		synctest.Wait()
	})
}

// More rides than may wait are refused.
func TestBatcher_Full_Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, release := held(1000)
		for range maxBatches*1000 + maxWaiting {
			go func() { _, _ = b.submit(nil) }()
		}
		synctest.Wait()
		time.Sleep(maxAge)
		synctest.Wait()
		b.mu.Lock()
		waiting := len(b.waiting)
		b.mu.Unlock()
		for range maxWaiting - waiting {
			go func() { _, _ = b.submit(nil) }()
		}
		synctest.Wait()
		_, err := b.submit(nil)
		if r, ok := errors.AsType[*db.Refusal](err); !ok || r.Status != http.StatusServiceUnavailable || r.Reason != "waiting" {
			t.Errorf("got %v, want 503 waiting", err)
		}
		close(release)
		synctest.Wait()
	})
}

// At its deadline a ride whose batch has no outcome is answered 504. A ride that still waits is answered 503, and is not sent later.
func TestBatcher_NoOutcome_IsUnknownAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sent, release := held(1000)
		for n := range maxBatches + 2 {
			status, reason := http.StatusGatewayTimeout, ""
			if n >= maxBatches {
				status, reason = http.StatusServiceUnavailable, "waiting"
			}
			go func() {
				start := time.Now()
				_, err := b.submit(nil)
				if r, ok := errors.AsType[*db.Refusal](err); !ok || r.Status != status || r.Reason != reason || time.Since(start) != b.deadline {
					t.Errorf("ride %d: got %v after %v, want %d after %v", n, err, time.Since(start), status, b.deadline)
				}
			}()
			time.Sleep(2 * maxAge) // in a bubble: each ride is a batch, and the last two wait
		}
		time.Sleep(b.deadline)
		synctest.Wait()
		close(release)
		synctest.Wait()
		if len(sent) != maxBatches {
			t.Errorf("got %d batches, want %d", len(sent), maxBatches)
		}
	})
}
