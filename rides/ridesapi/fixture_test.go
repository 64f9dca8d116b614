package ridesapi_test

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
	"time"

	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/service"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/dbtest"
	"rideshare/rides"
	"rideshare/rides/ridesapi"
	"rideshare/rides/usercheck"

	_ "modernc.org/sqlite" // The driver of dbtest.
)

// usersService is a fake users service behind the gateway: it answers from the database's own table and records the
// requests.
type usersService struct {
	db *dbtest.DB
	t  *testing.T

	mu    sync.Mutex // guards the fields below
	asked []*http.Request
	// answer, if set, takes the place of the right answer.
	answer func(w http.ResponseWriter)
}

func (u *usersService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.asked = append(u.asked, r)
	answer := u.answer
	u.mu.Unlock()
	if answer != nil {
		answer(w)
		return
	}
	rest, one := strings.CutPrefix(r.URL.EscapedPath(), "/api/v1/users/")
	if !one {
		list := u.db.Text(u.t, "SELECT CASE count(*) WHEN 0 THEN '' ELSE json_group_array(username) END FROM users")
		if list == "" {
			w.WriteHeader(http.StatusNoContent)
		}
		_, _ = io.WriteString(w, list)
		return
	}
	name, err := url.PathUnescape(rest)
	if err != nil || u.db.Text(u.t, "SELECT count(*) FROM users WHERE username = ?", name) == "0" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"username": name})
}

// take returns the requests since the last call.
func (u *usersService) take() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	asked := u.asked
	u.asked = nil
	return asked
}

func (u *usersService) set(answer func(w http.ResponseWriter)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

// fixture is a rides service with a stand-in of the orchestrator and of users.
type fixture struct {
	url     string
	db      *dbtest.DB
	users   *usersService
	service *ridesapi.Service
	now     time.Time
}

// settings are what tests vary; the zero value is the default.
type settings struct {
	mode  usercheck.Mode
	zone  string
	creds *httpapi.Credentials
}

func newFixture(t *testing.T, set settings) *fixture {
	t.Helper()
	if set.zone == "" {
		set.zone = "Asia/Kolkata"
	}
	db := dbtest.New(t)
	f := &fixture{db: db, users: &usersService{db: db, t: t}, now: time.Date(2030, 6, 15, 6, 30, 0, 0, time.UTC)}
	users := httptest.NewUnstartedServer(f.users)
	users.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	users.Start()
	client, err := dbclient.New(dbclient.Config{URL: db.URL, BreakAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	check, err := usercheck.New(usercheck.Config{Gateway: users.URL, Origin: "http://rides.example", Mode: set.mode})
	if err != nil {
		t.Fatal(err)
	}
	zone, err := rides.Location(set.zone)
	if err != nil {
		t.Fatal(err)
	}
	f.service, err = ridesapi.New(ridesapi.Config{
		Config: service.Config{DB: client, Log: slog.New(slog.DiscardHandler), Credentials: set.creds, Metrics: http.NotFoundHandler()},
		Users:  check, Now: func() time.Time { return f.now }, Location: zone,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.service.Handler())
	f.url = server.URL
	t.Cleanup(func() {
		server.Close()
		_ = f.service.Close(t.Context()) // Its context has ended; nobody reads these counts.
		users.Close()
		check.Close()
		client.Close()
	})
	return f
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

// user puts users into the database.
func (f *fixture) user(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		f.db.Exec(t, "INSERT INTO users VALUES(?, 'x')", name)
	}
}

const (
	all    = "/api/v1/rides"
	future = "01-01-2031:00-00-12"
)

// ride returns the body of POST /api/v1/rides, with extra fields as they are.
func ride(user, timestamp, source, destination, extra string) string {
	name, _ := json.Marshal(user) // Text cannot fail to encode.
	return `{"created_by":` + string(name) + `,"timestamp":"` + timestamp + `","source":` + source + `,"destination":` + destination + extra + `}`
}

func joiner(user string) string {
	name, _ := json.Marshal(user) // Text cannot fail to encode.
	return `{"username":` + string(name) + `}`
}
