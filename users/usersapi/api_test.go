package usersapi_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // The driver of dbtest.

	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/passhash"
	"rideshare/internal/service"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/dbtest"
	"rideshare/internal/testkit/doctest"
	"rideshare/users/usersapi"
)

// password is the SHA-1 of nothing, in hex.
const password = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

// fixture is a users service on a stand-in of the orchestrator.
type fixture struct {
	url     string
	db      *dbtest.DB
	service *usersapi.Service
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: dbtest.New(t)}
	f.service, f.url = newInstance(t, f.db)
	return f
}

// newInstance starts one instance of the service.
func newInstance(t *testing.T, db *dbtest.DB, change ...func(*usersapi.Config)) (*usersapi.Service, string) {
	t.Helper()
	client, err := dbclient.New(dbclient.Config{URL: db.URL, BreakAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := usersapi.Config{Config: service.Config{DB: client, Log: slog.New(slog.DiscardHandler)}, Cost: passhash.Cost{MemoryKiB: 8, Passes: 1}}
	for _, f := range change {
		f(&cfg)
	}
	service := usersapi.New(cfg)
	server := httptest.NewUnstartedServer(service.Handler())
	server.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	server.Start()
	t.Cleanup(func() {
		server.Close()
		_ = service.Close(t.Context()) // Its context has ended: a test that cares about the counts closes itself.
		client.Close()
	})
	return service, server.URL
}

// do sends one request with a path taken as it is.
func (f *fixture) do(t *testing.T, method, path, body string, headers ...string) apitest.Answer {
	t.Helper()
	return apitest.Do(t, method, f.url+path, body, headers...)
}

func (f *fixture) want(t *testing.T, call, body string, status int, wantBody string) {
	t.Helper()
	apitest.Want(t, f.url, call, body, apitest.Answer{Status: status, Body: wantBody})
}

func putBody(t *testing.T, name string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"username": name, "password": password})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (f *fixture) put(t *testing.T, name string, status int) {
	t.Helper()
	f.want(t, "PUT /api/v1/users", putBody(t, name), status, "{}")
}

const all = "/api/v1/users"

// Each line of the users table answers as it says.
func TestUsers_Table(t *testing.T) {
	f := newFixture(t)
	f.want(t, "GET "+all, "", 204, "")
	f.want(t, "GET "+all+"/ann", "", 404, "{}")
	f.put(t, "bob", 201)
	f.put(t, "ann", 201)
	f.put(t, "ann", 400)
	f.put(t, "Ann", 201)
	f.want(t, "GET "+all, "", 200, `["Ann","ann","bob"]`)
	f.want(t, "GET "+all+"/ann", "", 200, `{"username":"ann"}`)
	f.want(t, "GET "+all+"/ANN", "", 404, "{}")
	f.want(t, "DELETE "+all+"/ann", "", 200, "{}")
	f.want(t, "DELETE "+all+"/ann", "", 400, "{}")
	f.want(t, "GET "+all, "", 200, `["Ann","bob"]`)
	f.want(t, "GET /", "", 200, "{}")
	f.want(t, "GET /livez", "", 200, "{}")
	f.want(t, "GET /readyz", "", 200, "{}")
}

// Another method of a known path is 405 with Allow, an unknown path is 404.
func TestUsers_MethodsAndPaths(t *testing.T) {
	f := newFixture(t)
	for path, allow := range map[string]string{
		all:                "GET, HEAD, OPTIONS, PUT",
		all + "/ann":       "DELETE, GET, HEAD, OPTIONS",
		"/api/v1/_count":   "DELETE, GET, HEAD, OPTIONS",
		all + "/_count":    "DELETE, GET, HEAD, OPTIONS",
		"/api/v1/db/clear": "OPTIONS, POST",
		"/":                "GET, HEAD, OPTIONS",
		"/livez":           "GET, HEAD, OPTIONS",
	} {
		got := f.do(t, "PATCH", path, `{"a":1}`)
		if got.Status != 405 || got.Header.Get("Allow") != allow {
			t.Errorf("PATCH %s: got %d with Allow %q, want 405 with %q", path, got.Status, got.Header.Get("Allow"), allow)
		}
	}
	f.want(t, "POST "+all, putBody(t, "x"), 405, "{}")
	for _, path := range []string{all + "/", all + "/ann/", all + "/a/b", "/api/v1/usersX", "/api/v1/rides", "/api/v1/_count/", "//"} {
		if got := f.do(t, "GET", path, ""); got.Status != 404 {
			t.Errorf("GET %s: got %d, want 404", path, got.Status)
		}
	}
}

// A body that is not exactly a name and a SHA-1 in hex is 400 and makes no user.
func TestUsers_Create_StrictBody(t *testing.T) {
	f := newFixture(t)
	for name, body := range map[string]string{
		"Empty":        "",
		"NoPassword":   `{"username":"x"}`,
		"NoName":       `{"password":"` + password + `"}`,
		"EmptyName":    putBody(t, ""),
		"Reserved":     putBody(t, "_count"),
		"ShortHash":    `{"username":"x","password":"` + password[1:] + `"}`,
		"LongHash":     `{"username":"x","password":"` + password + `0"}`,
		"NotHex":       `{"username":"x","password":"g` + password[1:] + `"}`,
		"HashNewline":  `{"username":"x","password":"` + password + `\n"}`,
		"Unknown":      `{"username":"x","password":"` + password + `","a":1}`,
		"Duplicate":    `{"username":"x","username":"y","password":"` + password + `"}`,
		"OtherCase":    `{"Username":"x","password":"` + password + `"}`,
		"Number":       `{"username":1,"password":"` + password + `"}`,
		"Null":         `{"username":null,"password":"` + password + `"}`,
		"Trailing":     putBody(t, "x") + "x",
		"List":         "[" + putBody(t, "x") + "]",
		"BadUTF8":      "{\"username\":\"\xff\",\"password\":\"" + password + "\"}",
		"LoneSurrogat": `{"username":"\ud800","password":"` + password + `"}`,
	} {
		t.Run(name, func(t *testing.T) { f.want(t, "PUT "+all, body, 400, "{}") })
	}
	f.want(t, "PUT "+all, `{"username":"`+strings.Repeat("x", 1<<20)+`"}`, 413, "{}")
	f.want(t, "GET "+all, "", 204, "")
	f.want(t, "PUT "+all, `{"username":"up","password":"`+strings.ToUpper(password)+`"}`, 201, "{}")
}

// Names of any length and content survive creation, look-up, listing and deletion.
func TestUsers_HostileNames(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{
		"a b", "a/b", "a%2Fb", "%", "..", ".", ":username", "_counter", "ü", "日本語", "😀", "a\nb\tc", "\u0000", `"'\;--`,
		"null", "0", " ", "\u2028", "\ufffd", "a;b?c#d&e", strings.Repeat("x", 100_000), strings.Repeat("😀/%", 33_000),
	} {
		f.put(t, name, 201)
		one := all + "/" + url.PathEscape(name)
		var got struct{ Username string }
		if err := json.Unmarshal([]byte(f.do(t, "GET", one, "").Body), &got); err != nil || got.Username != name {
			t.Errorf("%.20q: looked up as %.20q (%v)", name, got.Username, err)
		}
		var list []string
		if err := json.Unmarshal([]byte(f.do(t, "GET", all, "").Body), &list); err != nil || len(list) != 1 || list[0] != name {
			t.Errorf("%.20q: listed as %.60q (%v)", name, list, err)
		}
		f.want(t, "DELETE "+one, "", 200, "{}")
	}
	f.put(t, "\ufffd", 201)
	f.want(t, "DELETE "+all+"/%FF", "", 400, "{}")
	f.want(t, "GET "+all+"/%FF", "", 404, "{}")
}

// A body on a route that takes none is refused unless it is empty or `{}`.
func TestUsers_NoBodyRoutes(t *testing.T) {
	f := newFixture(t)
	f.put(t, "ann", 201)
	for _, call := range []struct{ method, path string }{
		{"GET", all},
		{"GET", all + "/ann"},
		{"DELETE", all + "/ann"},
		{"GET", "/api/v1/_count"},
		{"DELETE", "/api/v1/_count"},
		{"POST", "/api/v1/db/clear"},
	} {
		for _, body := range []string{`{"a":1}`, "[]", "x", `""`} {
			f.want(t, call.method+" "+call.path, body, 400, "{}")
		}
	}
	f.want(t, "GET "+all+"/ann", " {} ", 200, `{"username":"ann"}`)
	f.want(t, "DELETE "+all+"/ann", "{}", 200, "{}")
}

// Deleting a user removes its rides and seats.
func TestUsers_Delete_Cascades(t *testing.T) {
	f := newFixture(t)
	f.put(t, "ann", 201)
	f.put(t, "bob", 201)
	f.db.Exec(t, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','t',1,2),('bob','t',1,2)")
	f.db.Exec(t, "INSERT INTO riders VALUES(1,'bob'),(2,'ann')")
	f.want(t, "DELETE "+all+"/ann", "", 200, "{}")
	if n := f.db.Text(t, "SELECT (SELECT count(*) FROM rides)||','||(SELECT count(*) FROM riders)"); n != "1,0" {
		t.Errorf("got rides,riders %s, want 1,0", n)
	}
}

// Of many concurrent requests for one name exactly one succeeds, and the hash is argon2id.
func TestUsers_Create_OneWins(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	statuses := make(chan int, 20)
	body := putBody(t, "ann")
	for range 20 {
		wg.Go(func() { statuses <- f.do(t, "PUT", all, body).Status })
	}
	wg.Wait()
	close(statuses)
	counts := map[int]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts[201] != 1 || counts[400] != 19 {
		t.Errorf("got %v, want one 201 and 19 times 400", counts)
	}
	hash := f.db.Text(t, "SELECT password FROM users")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") || strings.Contains(hash, password) {
		t.Errorf("stored %s", hash)
	}
}

// Where the service has credentials, what empties something asks for them, and nothing else does.
func TestService_WithCredentials_GuardsWhatEmpties(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer secret"))
	if err != nil {
		t.Fatal(err)
	}
	service, url := newInstance(t, dbtest.New(t), func(c *usersapi.Config) { c.Credentials, c.Metrics = creds, http.NotFoundHandler() })
	const course, health, page = "the course's clients have no credentials", "probers have no credentials", "no data"
	for _, call := range apitest.Guarded(t, service.Handler().(*httpapi.API), map[string]string{
		"GET /": course, "GET /api/v1/users": course, "PUT /api/v1/users": course, "GET /api/v1/users/:username": course, "DELETE /api/v1/users/:username": course,
		"GET /api/v1/_count": course, "GET /api/v1/users/_count": course, "GET /livez": health, "GET /readyz": health, "GET /metrics": health,
		"GET /openapi.json": page, "GET /docs": page, "GET /docs/style.css": page,
	}) {
		method, path, _ := strings.Cut(call, " ")
		for _, header := range []string{"", "Bearer wrong"} {
			got := apitest.Do(t, method, url+path, "", "Authorization", header)
			if got.Status != 401 || got.Body != "{}" || got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: got %d %s, want 401", call, header, got.Status, got.Body)
			}
		}
		if got := apitest.Do(t, method, url+path, "", "Authorization", "Bearer secret"); got.Status != 200 {
			t.Errorf("%s with credentials: got %d %s, want 200", call, got.Status, got.Body)
		}
	}
}

// A long list of users passes through as it comes. One that the database cuts off is cut off for the client too.
func TestList_Long_PassesThrough(t *testing.T) {
	name := strings.Repeat("x", 40<<10)
	for _, whole := range []bool{true, false} {
		orchestrator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/db/query" {
				return
			}
			_, _ = io.WriteString(w, `{"results":[{"columns":["username"],"types":["text"],"values":[["first"]`)
			for range 200 {
				_, _ = io.WriteString(w, `,["`+name+`"]`)
			}
			if !whole {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `]}]}`)
		}))
		client, err := dbclient.New(dbclient.Config{URL: orchestrator.URL})
		if err != nil {
			t.Fatal(err)
		}
		service := usersapi.New(usersapi.Config{Config: service.Config{DB: client, Log: slog.New(slog.DiscardHandler)}})
		server := httptest.NewServer(service.Handler())
		resp, err := http.Get(server.URL + "/api/v1/users")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		err = json.NewDecoder(resp.Body).Decode(&names)
		if resp.StatusCode != http.StatusOK || (err == nil) != whole || whole && (len(names) != 201 || names[0] != "first" || names[200] != name) {
			t.Errorf("whole %v: got %d and %d names, %v", whole, resp.StatusCode, len(names), err)
		}
		_ = resp.Body.Close()
		server.Close()
		orchestrator.Close()
		_ = service.Close(t.Context()) // the counts have nowhere to go.
		client.Close()
	}
}

// The OpenAPI document has exactly the service's routes.
func TestDocument_HasEveryRoute(t *testing.T) {
	service, _ := newInstance(t, dbtest.New(t), func(c *usersapi.Config) { c.Metrics = http.NotFoundHandler() })
	doctest.Routes(t, usersapi.Document, service.Handler().(*httpapi.API).Routes())
}
