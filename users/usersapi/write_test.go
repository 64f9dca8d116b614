package usersapi_test

import (
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/testkit/dbtest"
)

// The same key and body get the first answer again, also when the user is gone
// or the first answer was lost; another body is 422; another path is another key.
func TestUsers_IdempotencyKey(t *testing.T) {
	f := newFixture(t)
	key := []string{"Idempotency-Key", "k-1"}
	first := f.do(t, "PUT", all, putBody(t, "ann"), key...)
	again := f.do(t, "PUT", all, putBody(t, "ann"), key...)
	if first.Status != 201 || again.Status != 201 || again.Header.Get("X-Seq") != first.Header.Get("X-Seq") {
		t.Errorf("got %d and %d at %s, want 201 twice at %s", first.Status, again.Status, again.Header.Get("X-Seq"), first.Header.Get("X-Seq"))
	}
	if got := f.do(t, "PUT", all, putBody(t, "bob"), key...); got.Status != 422 {
		t.Errorf("other name: got %d, want 422", got.Status)
	}
	other := strings.Replace(putBody(t, "ann"), password, strings.Repeat("0", 40), 1)
	if got := f.do(t, "PUT", all, other, key...); got.Status != 422 {
		t.Errorf("other password: got %d, want 422", got.Status)
	}
	for range 2 {
		if got := f.do(t, "DELETE", all+"/ann", "", key...); got.Status != 200 {
			t.Errorf("delete: got %d, want 200", got.Status)
		}
	}
	if got := f.do(t, "PUT", all, putBody(t, "ann"), key...); got.Status != 201 || f.db.Text(t, "SELECT count(*) FROM users") != "0" {
		t.Errorf("repeated after the delete: got %d, want the first answer and no user", got.Status)
	}
	if got := f.do(t, "PUT", all, putBody(t, "ann"), "Idempotency-Key", "\xff"); got.Status != 400 {
		t.Errorf("bad key: got %d, want 400", got.Status)
	}
}

// With a key, a create whose answer was lost is applied once.
func TestUsers_IdempotencyKey_AfterLostAnswer(t *testing.T) {
	f := newFixture(t)
	f.db.SetFault(func(path string) dbtest.Fault {
		if path == "/db/execute" {
			return dbtest.LoseAnswer
		}
		return dbtest.None
	})
	lost := f.do(t, "PUT", all, putBody(t, "ann"), "Idempotency-Key", "k")
	if lost.Status != 504 || lost.Body != "{}" || lost.Header.Get("X-Operation-Id") == "" {
		t.Errorf("lost: got %d %s %v, want 504 with the operation's id", lost.Status, lost.Body, lost.Header)
	}
	f.db.SetFault(nil)
	if got := f.do(t, "PUT", all, putBody(t, "ann"), "Idempotency-Key", "k"); got.Status != 201 {
		t.Errorf("again: got %d, want 201", got.Status)
	}
}

// Answers carry the position, and a wanted one is passed on.
func TestUsers_Positions(t *testing.T) {
	f := newFixture(t)
	if got := f.do(t, "PUT", all, putBody(t, "ann")); got.Header.Get("X-Seq") == "" {
		t.Error("a write has no X-Seq")
	}
	for _, path := range []string{all, all + "/ann", all + "/bob", "/api/v1/_count"} {
		if got := f.do(t, "GET", path, "", "X-Min-Seq", "1"); got.Header.Get("X-Seq") == "" {
			t.Errorf("%s: no X-Seq with %d", path, got.Status)
		}
		if got := f.do(t, "GET", path, "", "X-Min-Seq", "1000000"); got.Status != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s at a future position: got %d, want 503", path, got.Status)
		}
		if got := f.do(t, "GET", path, "", "X-Min-Seq", "x"); got.Status != 400 {
			t.Errorf("%s at no position: got %d, want 400", path, got.Status)
		}
	}
}

// An outage is 503 where nothing was done and 504 where it may have been, never 500.
func TestUsers_Outage(t *testing.T) {
	f := newFixture(t)
	f.put(t, "ann", 201)
	calls := []struct{ method, path, body string }{
		{"GET", all, ""},
		{"GET", all + "/ann", ""},
		{"PUT", all, putBody(t, "bob")},
		{"DELETE", all + "/ann", ""},
		{"POST", "/api/v1/db/clear", ""},
		{"GET", "/api/v1/_count", ""},
		{"DELETE", "/api/v1/_count", ""},
		{"GET", "/readyz", ""},
	}
	f.db.SetFault(func(string) dbtest.Fault { return dbtest.Refuse })
	for _, c := range calls {
		if got := f.do(t, c.method, c.path, c.body); got.Status != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: got %d, want 503 with Retry-After", c.method, c.path, got.Status)
		}
	}
	f.want(t, "GET /livez", "", 200, "{}")
	f.db.SetFault(func(path string) dbtest.Fault {
		if strings.HasPrefix(path, "/db/query") {
			return dbtest.None
		}
		return dbtest.Vague
	})
	for _, c := range calls[2:5] {
		if got := f.do(t, c.method, c.path, c.body); got.Status != 504 || got.Header.Get("X-Operation-Id") == "" {
			t.Errorf("%s %s: got %d, want 504 with the operation's id", c.method, c.path, got.Status)
		}
	}
	got := f.do(t, "PUT", all, putBody(t, "carl"), "Accept", "application/problem+json")
	if got.Status != 504 || !strings.Contains(got.Body, `"op_id"`) || strings.Contains(got.Body, "INSERT") {
		t.Errorf("problem: got %d %s", got.Status, got.Body)
	}
}

// Clearing empties everything but the counters, and ride ids start at 1 again.
func TestUsers_Clear(t *testing.T) {
	f := newFixture(t)
	f.put(t, "ann", 201)
	f.db.Exec(t, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','t',1,2)")
	f.db.Exec(t, "INSERT INTO riders VALUES(1,'ann')")
	f.want(t, "GET /api/v1/_count", "", 200, "[1]")
	f.want(t, "POST /api/v1/db/clear", "", 200, "{}")
	f.want(t, "POST /api/v1/db/clear", "", 200, "{}")
	f.want(t, "GET /api/v1/_count", "", 200, "[1]")
	f.want(t, "GET "+all, "", 204, "")
	f.put(t, "ann", 201)
	f.db.Exec(t, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','t',1,2)")
	if id := f.db.Text(t, "SELECT rideId FROM rides"); id != "1" {
		t.Errorf("first ride after clearing has id %s, want 1", id)
	}
}

// The counter counts each request to the users routes, whatever came of it, and
// nothing else; both paths show and reset it.
func TestUsers_Counter(t *testing.T) {
	f := newFixture(t)
	f.want(t, "GET /api/v1/_count", "", 200, "[0]")
	f.put(t, "ann", 201)
	f.put(t, "ann", 400)
	f.want(t, "PUT "+all, "junk", 400, "{}")
	f.want(t, "PATCH "+all, "", 405, "{}")
	f.want(t, "POST "+all+"/ann", "", 405, "{}")
	f.want(t, "GET "+all+"/nobody", "", 404, "{}")
	f.want(t, "PUT "+all, strings.Repeat("x", 1<<20+1), 413, "{}")
	f.do(t, "HEAD", all, "")
	const counted = "[8]"
	for _, uncounted := range []struct{ method, path string }{
		{"GET", "/api/v1/_count"},
		{"GET", all + "/_count"},
		{"PUT", all + "/_count"},
		{"GET", "/"},
		{"GET", "/livez"},
		{"GET", "/readyz"},
		{"POST", "/api/v1/db/clear"},
		{"GET", all + "/"},
		{"GET", "/nothing"},
	} {
		f.do(t, uncounted.method, uncounted.path, "")
	}
	f.want(t, "GET /api/v1/_count", "", 200, counted)
	f.want(t, "GET "+all+"/_count", "", 200, counted)
	f.want(t, "DELETE "+all+"/_count", "", 200, "{}")
	f.want(t, "GET /api/v1/_count", "", 200, "[0]")
	f.do(t, "GET", all, "")
	f.want(t, "DELETE /api/v1/_count", "", 200, "{}")
	f.want(t, "GET "+all+"/_count", "", 200, "[0]")
}

// Two instances count together, and closing one loses nothing.
func TestUsers_Counter_SharedAndFlushedOnClose(t *testing.T) {
	f := newFixture(t)
	other, url := newInstance(t, f.db)
	second := &fixture{url: url, db: f.db, service: other}
	for range 5 {
		f.do(t, http.MethodGet, all, "")
		second.do(t, http.MethodGet, all, "")
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(t, "GET /api/v1/_count", "", 200, "[10]")
}

// Counting goes on while the database is away, and is written when it is back.
func TestUsers_Counter_SurvivesOutage(t *testing.T) {
	f := newFixture(t)
	f.db.SetFault(func(string) dbtest.Fault { return dbtest.Refuse })
	for range 7 {
		f.do(t, "GET", all, "")
	}
	f.db.SetFault(nil)
	f.want(t, "GET /api/v1/_count", "", 200, "[7]")
}
