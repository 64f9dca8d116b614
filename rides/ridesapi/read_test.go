package ridesapi_test

import (
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/dbtest"
)

// Only rides later than now are listed, by the clock and the time zone.
func TestRides_List_OnlyToCome(t *testing.T) {
	f := newFixture(t, settings{}) // It is 12:00:00 in Kolkata.
	f.user(t, "ann")
	for _, timestamp := range []string{
		"15-06-2030:01-00-12", "15-06-2030:00-00-12", "15-06-2030:59-59-11", "14-06-2031:00-00-00", "16-05-2030:59-59-23", "01-01-2031:00-00-00", "15-06-2030:00-01-12",
	} {
		f.want(t, "POST "+all, ride("ann", timestamp, "1", "2", ""), 201, "{}")
	}
	f.want(t, "GET "+all+"?source=1&destination=2", "", 200, `[{"rideId":1,"username":"ann","timestamp":"15-06-2030:01-00-12"},`+
		`{"rideId":4,"username":"ann","timestamp":"14-06-2031:00-00-00"},{"rideId":6,"username":"ann","timestamp":"01-01-2031:00-00-00"},`+
		`{"rideId":7,"username":"ann","timestamp":"15-06-2030:00-01-12"}]`)
	f.now = f.now.Add(time.Second)
	if got := f.do(t, "GET", all+"?source=1&destination=2", ""); strings.Contains(got.Body, `"rideId":1,`) {
		t.Errorf("a second later: got %s", got.Body)
	}
	utc := newFixture(t, settings{zone: "UTC"})
	utc.user(t, "ann")
	utc.want(t, "POST "+all, ride("ann", "15-06-2030:01-30-06", "1", "2", ""), 201, "{}")
	utc.want(t, "POST "+all, ride("ann", "15-06-2030:59-29-06", "1", "2", ""), 201, "{}")
	utc.want(t, "GET "+all+"?source=1&destination=2", "", 200, `[{"rideId":1,"username":"ann","timestamp":"15-06-2030:01-30-06"}]`)
}

// Source and destination must each be there once, exist and differ.
func TestRides_List_BadQuery(t *testing.T) {
	f := newFixture(t, settings{})
	for _, query := range []string{
		"", "?", "?source=1", "?destination=2", "?source=1&destination=", "?source=1&destination=1", "?source=0&destination=1",
		"?source=1&destination=199", "?source=a&destination=1", "?source=1.0&destination=2", "?source=01&destination=2", "?source=+1&destination=2",
		"?source=1&source=3&destination=2", "?source=1&destination=2&x=%zz", "?Source=1&destination=2", "?source=1;destination=2",
	} {
		f.want(t, "GET "+all+query, "", 400, "{}")
	}
	f.want(t, "GET "+all+"?source=1&destination=198&other=x", "", 204, "")
}

// A body on a route that takes none is refused unless it is empty or `{}`.
func TestRides_NoBodyRoutes(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	f.want(t, "POST "+all, ride("ann", future, "1", "2", ""), 201, "{}")
	for _, c := range []struct{ method, path string }{
		{"GET", all + "?source=1&destination=2"}, {"GET", all + "/1"}, {"DELETE", all + "/1"}, {"GET", all + "/count"}, {"GET", "/api/v1/_count"},
	} {
		f.want(t, c.method+" "+c.path, `{"a":1}`, 400, "{}")
		f.want(t, c.method+" "+c.path, "[]", 400, "{}")
	}
	f.want(t, "DELETE "+all+"/1", "{}", 200, "{}")
}

// The counter counts rides routes, rides/count and failures included, and nothing else.
func TestRides_Counter(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	f.do(t, "POST", all, ride("ann", future, "1", "2", ""))
	f.do(t, "POST", all, "junk")
	f.do(t, "PATCH", all, "")
	f.do(t, "GET", all+"/count", "")
	f.do(t, "POST", all+"/count", "")
	f.do(t, "GET", all+"/abc", "")
	f.do(t, "GET", all+"/1", "")
	f.do(t, "GET", "/api/v1/_count", "")
	f.do(t, "POST", all+"/_count", "")
	f.do(t, "POST", "/api/v1/db/clear", "")
	f.do(t, "GET", all+"/", "")
	f.want(t, "GET /api/v1/_count", "", 200, "[7]")
	f.want(t, "GET "+all+"/_count", "", 200, "[7]")
	f.want(t, "DELETE "+all+"/_count", "", 200, "{}")
	f.want(t, "GET /api/v1/_count", "", 200, "[0]")
}

// The same key and body get the first answer again, with the same id, even when
// the user is gone by then.
func TestRides_IdempotencyKey(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann", "bob", "carl")
	key := []string{"Idempotency-Key", "k"}
	for range 2 {
		if got := f.do(t, "POST", all, ride("ann", future, "1", "2", `,"seats":1`), key...); got.Status != 201 || got.Header.Get("Location") != all+"/1" {
			t.Errorf("create: got %d at %s", got.Status, got.Header.Get("Location"))
		}
		if got := f.do(t, "POST", all+"/1", joiner("bob"), key...); got.Status != 200 {
			t.Errorf("join: got %d, want 200", got.Status)
		}
		if got := f.do(t, "POST", all+"/1", joiner("carl"), "Idempotency-Key", "k2"); got.Status != 409 {
			t.Errorf("full: got %d, want 409", got.Status)
		}
	}
	if got := f.do(t, "POST", all, ride("bob", future, "1", "2", ""), key...); got.Status != 422 {
		t.Errorf("other body: got %d, want 422", got.Status)
	}
	if got := f.do(t, "POST", all+"/9", joiner("nobody"), key...); got.Status != 400 {
		t.Errorf("nobody joins nothing: got %d, want 400", got.Status)
	}
	if got := f.do(t, "POST", all, ride("nobody", future, "1", "2", ""), "Idempotency-Key", "k3"); got.Status != 400 {
		t.Errorf("nobody creates: got %d, want 400", got.Status)
	}
	f.db.Exec(t, "DELETE FROM users")
	if got := f.do(t, "POST", all, ride("ann", future, "1", "2", `,"seats":1`), key...); got.Status != 201 {
		t.Errorf("repeated without the user: got %d, want the first answer", got.Status)
	}
	if got := f.do(t, "POST", all+"/1", joiner("bob"), key...); got.Status != 200 {
		t.Errorf("join repeated without the user: got %d, want the first answer", got.Status)
	}
}

// Positions are passed on, to the users service too, and outages are 503 or 504.
func TestRides_PositionsAndOutage(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann", "bob")
	got := f.do(t, "POST", all, ride("ann", future, "1", "2", ""), "X-Min-Seq", "5")
	if asked := f.users.take(); got.Header.Get("X-Seq") == "" || asked[0].Header.Get("X-Min-Seq") != "5" {
		t.Errorf("create: X-Seq %q, users asked at %q", got.Header.Get("X-Seq"), asked[0].Header.Get("X-Min-Seq"))
	}
	for _, path := range []string{all + "?source=1&destination=2", all + "/1", all + "/2", all + "/count"} {
		if got := f.do(t, "GET", path, ""); got.Header.Get("X-Seq") == "" {
			t.Errorf("%s: no X-Seq with %d", path, got.Status)
		}
		if got := f.do(t, "GET", path, "", "X-Min-Seq", "1000"); got.Status != 503 {
			t.Errorf("%s at a future position: got %d, want 503", path, got.Status)
		}
		if got := f.do(t, "GET", path, "", "X-Min-Seq", "x"); got.Status != 400 {
			t.Errorf("%s at no position: got %d, want 400", path, got.Status)
		}
	}
	writes := []struct{ method, path, body string }{
		{"POST", all, ride("ann", future, "1", "2", "")}, {"POST", all + "/1", joiner("bob")}, {"DELETE", all + "/1", ""},
	}
	for fault, want := range map[dbtest.Fault]int{dbtest.Refuse: 503, dbtest.Lose: 504} {
		f.db.SetFault(func(string) dbtest.Fault { return fault })
		for _, c := range writes {
			if got := f.do(t, c.method, c.path, c.body); got.Status != want || (want == 504 && got.Header.Get("X-Operation-Id") == "") {
				t.Errorf("fault %d, %s %s: got %d, want %d", fault, c.method, c.path, got.Status, want)
			}
		}
	}
}
