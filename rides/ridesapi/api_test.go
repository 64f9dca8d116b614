package ridesapi_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/doctest"
	"rideshare/rides/ridesapi"
	"rideshare/rides/usercheck"
)

// Each line of the rides table answers as it says.
func TestRides_Table(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann", "bob", "carl")
	f.want(t, "GET "+all+"/count", "", 200, "[0]")
	f.want(t, "GET "+all+"?source=22&destination=23", "", 204, "")
	created := f.do(t, "POST", all, ride("ann", future, "22", "23", ""))
	if created.Status != 201 || created.Body != "{}" || created.Header.Get("Location") != all+"/1" {
		t.Errorf("create: got %d %s at %q", created.Status, created.Body, created.Header.Get("Location"))
	}
	f.want(t, "GET "+all+"?source=22&destination=23", "", 200, `[{"rideId":1,"username":"ann","timestamp":"`+future+`"}]`)
	f.want(t, "GET "+all+"?source=23&destination=22", "", 204, "")
	f.want(t, "GET "+all+"/1", "", 200,
		`{"rideId":1,"created_by":"ann","users":[],"timestamp":"`+future+`","source":22,"destination":23}`)
	f.want(t, "POST "+all+"/1", joiner("carl"), 200, "{}")
	f.want(t, "POST "+all+"/1", joiner("bob"), 200, "{}")
	f.want(t, "GET "+all+"/1", "", 200,
		`{"rideId":1,"created_by":"ann","users":["bob","carl"],"timestamp":"`+future+`","source":22,"destination":23}`)
	f.want(t, "GET "+all+"/count", "", 200, "[1]")
	f.want(t, "GET "+all+"/2", "", 204, "")
	f.want(t, "DELETE "+all+"/1", "", 200, "{}")
	f.want(t, "DELETE "+all+"/1", "", 400, "{}")
	f.want(t, "GET "+all+"/1", "", 204, "")
	if got := f.do(t, "POST", all, ride("ann", future, "22", "23", "")).Header.Get("Location"); got != all+"/2" {
		t.Errorf("id after a delete: got %s, want 2, since ids are never used again", got)
	}
	f.want(t, "POST /api/v1/db/clear", "", 200, "{}")
	f.user(t, "ann")
	if got := f.do(t, "POST", all, ride("ann", future, "22", "23", "")).Header.Get("Location"); got != all+"/1" {
		t.Errorf("id after clearing: got %s, want 1", got)
	}
	f.want(t, "GET /", "", 200, "{}")
	f.want(t, "GET /livez", "", 200, "{}")
	f.want(t, "GET /readyz", "", 200, "{}")
}

// A known path with another method gives 405 with Allow. An unknown path, and an id that is not a positive integer in
// its one spelling, give 404.
func TestRides_MethodsAndPaths(t *testing.T) {
	f := newFixture(t, settings{})
	for path, allow := range map[string]string{
		all: "GET, HEAD, OPTIONS, POST", all + "/1": "DELETE, GET, HEAD, OPTIONS, POST", all + "/count": "GET, HEAD, OPTIONS",
		all + "/_count": "DELETE, GET, HEAD, OPTIONS", "/api/v1/_count": "DELETE, GET, HEAD, OPTIONS", "/api/v1/db/clear": "OPTIONS, POST",
	} {
		got := f.do(t, "PATCH", path, "")
		if got.Status != 405 || got.Header.Get("Allow") != allow || got.Body != "{}" {
			t.Errorf("PATCH %s: got %d %s with Allow %q, want 405 with %q", path, got.Status, got.Body, got.Header.Get("Allow"), allow)
		}
	}
	f.want(t, "POST "+all+"/count", joiner("ann"), 405, "{}")
	f.want(t, "DELETE "+all+"/count", "", 405, "{}")
	f.want(t, "PUT "+all, ride("ann", future, "1", "2", ""), 405, "{}")
	for _, id := range []string{"0", "-1", "+1", "1.5", "1e0", "01", "abc", "9223372036854775808", "99999999999999999999", "%31%20", "1%2F2", "١", "counts"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			f.want(t, method+" "+all+"/"+id, map[string]string{"POST": joiner("ann")}[method], 404, "{}")
		}
	}
	f.want(t, "GET "+all+"/9223372036854775807", "", 204, "")
	for _, path := range []string{all + "/", all + "/1/", all + "/1/users", "/api/v1/ridesX", "/api/v1/users", "/x"} {
		if got := f.do(t, "GET", path, ""); got.Status != 404 {
			t.Errorf("GET %s: got %d, want 404", path, got.Status)
		}
	}
}

// A ride whose body is not exactly right is 400 and is not created, and nobody
// is asked about its creator before the rest is right.
func TestRides_Create_StrictBody(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	good := ride("ann", future, "1", "198", "")
	bodies := []string{
		"", "{}", "[]", "null", good + "x", strings.Replace(good, "{", `{"a":1,`, 1), strings.Replace(good, "created_by", "Created_by", 1),
		strings.Replace(good, `"created_by":"ann",`, "", 1), strings.Replace(good, `,"destination":198`, "", 1),
		strings.Replace(good, `"ann"`, "1", 1), strings.Replace(good, `"ann"`, "null", 1), strings.Replace(good, `"`+future+`"`, "5", 1),
		strings.Replace(good, "{", `{"source":1,`, 1),
	}
	for _, area := range []string{
		"0", "199", "-22", "22.0", "22.5", "2.2e1", "1e1", `"022"`, `" 22"`, `"22 "`, `"+22"`, `"-22"`, `"22.0"`, `"0"`, `"199"`,
		`""`, `"x"`, `"0x16"`, `"२२"`, "null", "true", "[22]", `{"a":22}`, "99999999999999999999", `"99999999999999999999"`, "198", `"198"`,
	} {
		bodies = append(bodies, ride("ann", future, area, "198", ""))
	}
	for _, seats := range []string{"0", "-1", "1.0", "1e1", `"1"`, "null", "true", "9223372036854775808"} {
		bodies = append(bodies, ride("ann", future, "1", "2", `,"seats":`+seats))
	}
	for _, timestamp := range []string{"", "01-01-2031", "29-02-2031:00-00-12", "2031-01-01:00-00-12", "01-01-2031:00-00-24"} {
		bodies = append(bodies, ride("ann", timestamp, "1", "2", ""))
	}
	for _, body := range bodies {
		f.want(t, "POST "+all, body, 400, "{}")
	}
	if asked := f.users.take(); len(asked) != 0 {
		t.Errorf("the users service was asked %d times, want 0", len(asked))
	}
	f.want(t, "POST "+all, ride("nobody", future, "1", "2", ""), 400, "{}")
	f.want(t, "POST "+all, ride("", future, "1", "2", ""), 400, "{}")
	f.want(t, "POST "+all, ride("_count", future, "1", "2", ""), 400, "{}")
	f.want(t, "POST "+all, `{"created_by":"`+strings.Repeat("x", 1<<20)+`"}`, 413, "{}")
	f.want(t, "GET "+all+"/count", "", 200, "[0]")
}

// Areas are numbers or strings of digits, past times and seats are taken.
func TestRides_Create_Accepts(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	for i, body := range []string{
		ride("ann", future, `"1"`, `"198"`, ""), ride("ann", future, `1`, `"\u0032"`, ""), ride("ann", "29-02-2000:59-59-23", "1", "2", ""),
		ride("ann", future, "1", "2", `,"seats":1`), ride("ann", future, "1", "2", `,"seats":9223372036854775807`),
	} {
		got := f.do(t, "POST", all, body, "Content-Type", "text/plain")
		if got.Status != 201 || got.Header.Get("Location") != all+"/"+strconv.Itoa(i+1) {
			t.Errorf("%s: got %d at %s", body, got.Status, got.Header.Get("Location"))
		}
	}
	f.want(t, "GET "+all+"/5", "", 200, `{"rideId":5,"created_by":"ann","users":[],"timestamp":"`+future+
		`","source":1,"destination":2,"seats":9223372036854775807,"seats_left":9223372036854775807}`)
}

// Creating a ride asks about the creator exactly once, through the gateway, with this instance as the origin; so does
// joining.
func TestRides_AsksUsersOnce(t *testing.T) {
	for mode, path := range map[usercheck.Mode]string{usercheck.Lookup: "/api/v1/users/a%2F%C3%BC%20b", usercheck.List: "/api/v1/users"} {
		f := newFixture(t, settings{mode: mode})
		f.user(t, "a/ü b", "bob")
		for range 2 {
			f.do(t, "POST", all, ride("a/ü b", future, "1", "2", ""), "X-Request-Id", "req-1")
			asked := f.users.take()
			if len(asked) != 1 || asked[0].RequestURI != path || asked[0].Header.Get("Origin") != "http://rides.example" ||
				asked[0].Header.Get("X-Request-Id") != "req-1" {
				t.Fatalf("%s: asked %v", mode, asked)
			}
		}
		f.want(t, "POST "+all+"/1", joiner("bob"), 200, "{}")
		if asked := f.users.take(); len(asked) != 1 {
			t.Errorf("%s: joining asked %d times, want 1", mode, len(asked))
		}
		f.want(t, "POST "+all, ride("nobody", future, "1", "2", ""), 400, "{}")
		f.want(t, "GET "+all+"/count", "", 200, "[2]")
	}
}

// Without users the users service answers 204, which means that no user exists.
func TestRides_Create_ListModeNoUsers(t *testing.T) {
	f := newFixture(t, settings{mode: usercheck.List})
	f.want(t, "POST "+all, ride("ann", future, "1", "2", ""), 400, "{}")
}

// A user that vanishes after the check is caught by the foreign key.
func TestRides_UserVanishes(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	f.want(t, "POST "+all, ride("ann", future, "1", "2", ""), 201, "{}")
	f.users.set(func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"username":"ghost"}`) })
	f.want(t, "POST "+all, ride("ghost", future, "1", "2", ""), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner("ghost"), 400, "{}")
	f.want(t, "GET "+all+"/count", "", 200, "[1]")
}

// A users service that does not answer, or not as it should, is 503 and nothing is done.
func TestRides_UsersAway(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann", "bob")
	f.want(t, "POST "+all, ride("ann", future, "1", "2", ""), 201, "{}")
	for name, answer := range map[string]func(w http.ResponseWriter){
		"Down":     func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"503":      func(w http.ResponseWriter) { w.WriteHeader(503) },
		"500":      func(w http.ResponseWriter) { w.WriteHeader(500) },
		"400":      func(w http.ResponseWriter) { w.WriteHeader(400) },
		"Redirect": func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(302) },
		"Nonsense": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"Other":    func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"username":"carl"}`) },
		"Empty":    func(w http.ResponseWriter) { w.WriteHeader(204) },
	} {
		t.Run(name, func(t *testing.T) {
			f.users.set(answer)
			for path, body := range map[string]string{all: ride("ann", future, "1", "2", ""), all + "/1": joiner("bob")} {
				if got := f.do(t, "POST", path, body); got.Status != 503 || got.Header.Get("Retry-After") == "" || got.Body != "{}" {
					t.Errorf("%s: got %d %s, want 503 with Retry-After", path, got.Status, got.Body)
				}
			}
		})
	}
	f.want(t, "GET "+all+"/count", "", 200, "[1]")
}

// The checks of a join come in the order that docs/API.md gives.
func TestRides_Join_OrderOfChecks(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann", "bob", "carl")
	f.want(t, "POST "+all, ride("ann", future, "1", "2", `,"seats":1`), 201, "{}")
	for _, body := range []string{"", "{}", `{"username":1}`, `{"username":null}`, `{"username":"bob","a":1}`, `{"Username":"bob"}`, "[]", `{"username":"bob","username":"bob"}`} {
		f.want(t, "POST "+all+"/1", body, 400, "{}")
		f.want(t, "POST "+all+"/9", body, 400, "{}")
	}
	f.want(t, "POST "+all+"/9", joiner("nobody"), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner("nobody"), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner(""), 400, "{}")
	f.want(t, "POST "+all+"/9", joiner("bob"), 204, "")
	f.want(t, "POST "+all+"/1", joiner("ann"), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner("bob"), 200, "{}")
	f.want(t, "POST "+all+"/1", joiner("bob"), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner("ann"), 400, "{}")
	f.want(t, "POST "+all+"/1", joiner("carl"), 409, "{}")
	f.want(t, "GET "+all+"/1", "", 200, `{"rideId":1,"created_by":"ann","users":["bob"],"timestamp":"`+future+
		`","source":1,"destination":2,"seats":1,"seats_left":0}`)
}

// However many users join concurrently, only as many get a seat as there are seats.
func TestRides_Join_SeatsHoldUnderConcurrency(t *testing.T) {
	f := newFixture(t, settings{})
	f.user(t, "ann")
	f.want(t, "POST "+all, ride("ann", future, "1", "2", `,"seats":7`), 201, "{}")
	var wg sync.WaitGroup
	statuses := make(chan int, 40)
	for i := range 20 {
		name := "u" + strconv.Itoa(i)
		f.user(t, name)
		for range 2 {
			wg.Go(func() { statuses <- f.do(t, "POST", all+"/1", joiner(name)).Status })
		}
	}
	wg.Wait()
	close(statuses)
	counts := map[int]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts[200] != 7 || counts[200]+counts[400]+counts[409] != 40 {
		t.Errorf("got %v, want 7 times 200 and else 400 or 409", counts)
	}
	if n := f.db.Text(t, "SELECT count(*) FROM riders"); n != "7" {
		t.Errorf("got %s riders, want 7", n)
	}
}

// Where the service has credentials, what empties something asks for them, and nothing else does.
func TestService_WithCredentials_GuardsWhatEmpties(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer secret"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, settings{creds: creds})
	const course, health, page = "the course's clients have no credentials", "probers have no credentials", "no data"
	guarded := apitest.Guarded(t, f.service.Handler().(*httpapi.API), map[string]string{
		"GET /": course, "GET /api/v1/rides": course, "POST /api/v1/rides": course, "GET /api/v1/rides/:rideId": course, "POST /api/v1/rides/:rideId": course,
		"DELETE /api/v1/rides/:rideId": course, "GET /api/v1/rides/count": course, "GET /api/v1/_count": course, "GET /api/v1/rides/_count": course,
		"GET /livez": health, "GET /readyz": health, "GET /metrics": health,
		"GET /openapi.json": page, "GET /docs": page, "GET /docs/style.css": page,
	})
	for _, call := range guarded {
		method, path, _ := strings.Cut(call, " ")
		if got := f.do(t, method, path, "", "Authorization", "Bearer secret"); got.Status != 200 {
			t.Errorf("%s with credentials: got %d %s, want 200", call, got.Status, got.Body)
		}
	}
}

// The OpenAPI document has exactly the service's routes.
func TestDocument_HasEveryRoute(t *testing.T) {
	f := newFixture(t, settings{})
	doctest.Routes(t, ridesapi.Document, f.service.Handler().(*httpapi.API).Routes())
}
