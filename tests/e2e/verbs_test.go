package e2e

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// later is a timestamp far in the future.
const later = "31-12-2999:00-00-12"

var (
	names atomic.Int64 // made by newName
	areas atomic.Int64 // made by newRoute
)

// newName returns a user name that nobody else uses.
func newName(base string) string { return fmt.Sprintf("%s-%d", base, names.Add(1)) }

// newRoute returns two areas between which no other test has a ride. Areas with adjacent numbers are reserved for tests
// that name areas themselves.
func newRoute() (source, destination int) {
	n := 198 + int(areas.Add(1))
	source = 1 + n%198
	destination = 1 + (source+n/198)%198
	return source, destination
}

// sha1Of returns a password as clients send it.
func sha1Of(password string) string {
	sum := sha1.Sum([]byte(password))
	return hex.EncodeToString(sum[:])
}

// userBody is the body of PUT users.
func userBody(name string) string {
	return toJSON(map[string]string{"username": name, "password": sha1Of(name)})
}

// usersURL and ridesURL return the URLs of the collections through the gateway.
func (s *system) usersURL() string { return s.Gateway + "/api/v1/users" }
func (s *system) ridesURL() string { return s.Gateway + "/api/v1/rides" }

func (s *system) userURL(name string) string { return s.usersURL() + "/" + url.PathEscape(name) }
func (s *system) rideURL(id int64) string    { return s.ridesURL() + "/" + strconv.FormatInt(id, 10) }

// db returns the URL of a path of the orchestrator.
func (s *system) db(path string) string { return s.Orchestrator + path }

// PutUser creates the user through the gateway.
func (s *system) PutUser(t *testing.T, name string) answer {
	t.Helper()
	return s.Call(t, http.MethodPut, s.usersURL(), userBody(name)).expect(t, http.StatusCreated, "{}")
}

// NewUser creates a user with a new name.
func (s *system) NewUser(t *testing.T, base string) string {
	t.Helper()
	name := newName(base)
	s.PutUser(t, name)
	return name
}

// ride is the body that creates a ride. A nil field is not sent.
type ride struct {
	CreatedBy   string `json:"created_by"`
	Timestamp   string `json:"timestamp"`
	Source      any    `json:"source"`
	Destination any    `json:"destination"`
	Seats       any    `json:"seats,omitempty"`
}

// CreateRide creates r and returns its id, from the Location header.
func (s *system) CreateRide(t *testing.T, r ride) int64 {
	t.Helper()
	a := s.Post(t, s.ridesURL(), toJSON(r)).expect(t, http.StatusCreated, "{}")
	return rideID(t, a)
}

// NewRide creates a future ride of user with that many seats; 0 means no limit.
func (s *system) NewRide(t *testing.T, user string, seats int) int64 {
	t.Helper()
	source, destination := newRoute()
	r := ride{CreatedBy: user, Timestamp: later, Source: source, Destination: destination}
	if seats > 0 {
		r.Seats = seats
	}
	return s.CreateRide(t, r)
}

// rideID reads the id from the Location of a created ride.
func rideID(t *testing.T, a answer) int64 {
	t.Helper()
	text, found := strings.CutPrefix(a.Header.Get("Location"), "/api/v1/rides/")
	id, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil || id < 1 {
		t.Fatalf("Location: got %q, want /api/v1/rides/{id}", a.Header.Get("Location"))
	}
	return id
}

// Join lets user join the ride.
func (s *system) Join(t *testing.T, id int64, user string) answer {
	t.Helper()
	return s.Post(t, s.rideURL(id), toJSON(map[string]string{"username": user}))
}

// Count reads _count at base, which is s.Users or s.Rides.
func (s *system) Count(t *testing.T, base string) int {
	t.Helper()
	a := s.Get(t, base+"/api/v1/_count").expect(t, http.StatusOK, anyBody)
	n := decode[[]int](t, a)
	if len(n) != 1 {
		t.Fatalf("_count: got %s, want one number", a.Body)
	}
	return n[0]
}

// Workers returns the pids of worker/list, which must be ascending numbers.
func (s *system) Workers(t *testing.T) []int {
	t.Helper()
	a := s.Get(t, s.db("/api/v1/worker/list")).expect(t, http.StatusOK, anyBody)
	pids := decode[[]int](t, a)
	if !slices.IsSorted(pids) {
		t.Errorf("worker/list: got %v, want it ascending", pids)
	}
	return pids
}

// Crash kills the worker that has the role and returns its pid.
func (s *system) Crash(t *testing.T, role string) int {
	t.Helper()
	a := s.Post(t, s.db("/api/v1/crash/"+role), "").expect(t, http.StatusOK, anyBody)
	pids := decode[[]int](t, a)
	if len(pids) != 1 {
		t.Fatalf("crash/%s: got %s, want one pid", role, a.Body)
	}
	return pids[0]
}

// statementResult is the answer to one statement of the SQL form.
type statementResult struct {
	Columns      []string            `json:"columns"`
	Types        []string            `json:"types"`
	Values       [][]json.RawMessage `json:"values"`
	LastInsertID int64               `json:"last_insert_id"`
	RowsAffected int64               `json:"rows_affected"`
	Error        string              `json:"error"`
}

// sqlResults is the answer of the SQL form.
type sqlResults struct {
	Results []statementResult `json:"results"`
}

// sqlBody is one statement with parameters, as a body of the SQL form.
func sqlBody(sql string, args ...any) string {
	return toJSON([]any{append([]any{sql}, args...)})
}

// Exec runs one statement that must succeed.
func (s *system) Exec(t *testing.T, sql string, args ...any) statementResult {
	t.Helper()
	return s.statement(t, "/db/execute", sql, args...)
}

// Query runs one read at the default level, which sees every acknowledged write.
func (s *system) Query(t *testing.T, sql string, args ...any) [][]json.RawMessage {
	t.Helper()
	return s.statement(t, "/db/query", sql, args...).Values
}

// QueryInt runs a read that answers one integer.
func (s *system) QueryInt(t *testing.T, sql string, args ...any) int {
	t.Helper()
	rows := s.Query(t, sql, args...)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: got %s, want one value", sql, toJSON(rows))
	}
	n, err := strconv.Atoi(string(rows[0][0]))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s *system) statement(t *testing.T, path, sql string, args ...any) statementResult {
	t.Helper()
	a := s.Post(t, s.db(path), sqlBody(sql, args...)).expect(t, http.StatusOK, anyBody)
	got := decode[sqlResults](t, a).Results
	if len(got) != 1 || got[0].Error != "" {
		t.Fatalf("%s: got %.300s, want one result", sql, a.Body)
	}
	return got[0]
}

// NewTable creates a table that nobody else uses and returns its name.
func (s *system) NewTable(t *testing.T, columns string) string {
	t.Helper()
	table := "t" + strconv.FormatInt(names.Add(1), 10)
	s.Exec(t, "CREATE TABLE "+table+"("+columns+")")
	return table
}
