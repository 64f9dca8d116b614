package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"rideshare/bench/load"
)

// system is the API in a few maps: right unless a test gives it a fault.
type system struct {
	fault fault

	mu      sync.Mutex // guards what follows
	users   map[string]int
	rides   []*ride
	joins   map[int][]string // users by ride
	writes  []map[string]any
	as      string    // the user of the last write
	calls   int       // of the kind that the fault is about
	served  int       // requests of all kinds
	asked   time.Time // when the run asked for the decisions, which ends a sample
	watched bool      // the run has a sample with figures
	once    sync.Once
	enough  chan struct{} // closed when some of everything was served
}

// enoughServed is how many requests have something of every kind, and of its faults.
const enoughServed = 250

type ride struct {
	ID          int      `json:"rideId"`
	Creator     string   `json:"created_by"`
	Username    string   `json:"username"`
	Timestamp   string   `json:"timestamp"`
	Source      int      `json:"source"`
	Destination int      `json:"destination"`
	Users       []string `json:"users"`
}

// fault makes some of the calls of one route go wrong.
type fault struct {
	route string
	// lose answers without applying the request, twice applies it twice, and status replaces the right status of the
	// answer.
	lose, twice bool
	status      int
}

// spare is how many calls of a route go well before the fault begins: those of the preparation.
const spare = 3

func newSystem(t *testing.T, f fault) (*system, load.Targets) {
	t.Helper()
	s := &system{fault: f, users: map[string]int{}, joins: map[int][]string{}, enough: make(chan struct{})}
	mux := http.NewServeMux()
	for route, handle := range map[string]func(*http.Request) (int, any){
		"PUT /api/v1/users":             s.putUser,
		"GET /api/v1/users":             s.listUsers,
		"GET /api/v1/users/{name}":      func(*http.Request) (int, any) { return http.StatusOK, map[string]string{} },
		"DELETE /api/v1/users/{name}":   s.deleteUser,
		"GET /api/v1/users/_count":      func(*http.Request) (int, any) { return http.StatusOK, []int{0} },
		"GET /api/v1/rides/count":       func(*http.Request) (int, any) { return http.StatusOK, []int{0} },
		"POST /api/v1/rides":            s.postRide,
		"GET /api/v1/rides":             s.listRides,
		"GET /api/v1/rides/{id}":        s.getRide,
		"POST /api/v1/rides/{id}":       s.join,
		"POST /api/v1/db/read":          s.read,
		"POST /api/v1/db/write":         s.write,
		"POST /db/execute":              s.execute,
		"GET /api/v1/worker/list":       func(*http.Request) (int, any) { return http.StatusOK, []int{1, 2} },
		"GET /api/v1/cluster":           cluster,
		"GET /api/v1/scaling/decisions": func(*http.Request) (int, any) { return http.StatusOK, []any{} },
	} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, route, handle) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return s, load.Targets{Users: server.URL, Rides: server.URL, Orchestrator: server.URL}
}

// serve answers a request, rightly or as the fault says.
func (s *system) serve(w http.ResponseWriter, r *http.Request, route string, handle func(*http.Request) (int, any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	if route == "GET /api/v1/scaling/decisions" {
		s.watched = s.watched || time.Since(s.asked) < 2*time.Second // The call for the cluster in between took less than its limit.
		s.asked = time.Now()
	}
	if s.watched && s.served >= enoughServed {
		s.once.Do(func() { close(s.enough) })
	}
	faulty := false
	if route == s.fault.route {
		s.calls++
		faulty = s.calls > spare && s.calls%2 == 0
	}
	before, joins, writes := len(s.rides), len(s.joins[id(r)]), len(s.writes)
	status, body := handle(r)
	if faulty && s.fault.lose && status < 300 {
		s.rides, s.joins[id(r)], s.writes = s.rides[:before], s.joins[id(r)][:joins], s.writes[:writes]
	}
	if faulty && s.fault.twice {
		if len(s.rides) > before {
			s.rides = append(s.rides, s.rides[before])
		}
		s.joins[id(r)] = append(s.joins[id(r)], s.joins[id(r)][joins:]...)
		s.writes = append(s.writes, s.writes[writes:]...)
	}
	if faulty && s.fault.status != 0 {
		status = s.fault.status
		w.Header().Set("Retry-After", "1")
	}
	if ride, ok := body.(*ride); ok && route == "POST /api/v1/rides" {
		w.Header().Set("Location", fmt.Sprintf("/api/v1/rides/%d", ride.ID))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func id(r *http.Request) int {
	n, _ := strconv.Atoi(r.PathValue("id"))
	return n
}

func body(r *http.Request) map[string]any {
	var v map[string]any
	_ = json.NewDecoder(r.Body).Decode(&v)
	return v
}

func (s *system) putUser(r *http.Request) (int, any) {
	s.users[body(r)["username"].(string)]++
	return http.StatusCreated, struct{}{}
}

func (s *system) listUsers(*http.Request) (int, any) {
	var names []string
	for name := range s.users {
		names = append(names, name)
	}
	slices.Sort(names)
	if s.fault.route == "GET /api/v1/users" && s.fault.lose {
		names = names[1:]
	}
	return http.StatusOK, names
}

func (s *system) deleteUser(r *http.Request) (int, any) {
	delete(s.users, r.PathValue("name"))
	return http.StatusOK, struct{}{}
}

func (s *system) postRide(r *http.Request) (int, any) {
	b := body(r)
	made := &ride{
		ID: len(s.rides) + 1000*s.calls + 1, Creator: b["created_by"].(string), Username: b["created_by"].(string), Timestamp: b["timestamp"].(string),
		Source: int(b["source"].(float64)), Destination: int(b["destination"].(float64)),
	}
	s.rides = append(s.rides, made)
	return http.StatusCreated, made
}

func (s *system) listRides(r *http.Request) (int, any) {
	found := []*ride{}
	for _, ride := range s.rides {
		if strconv.Itoa(ride.Source) == r.FormValue("source") && strconv.Itoa(ride.Destination) == r.FormValue("destination") {
			found = append(found, ride)
		}
	}
	if s.fault.route == "GET /api/v1/rides" && s.fault.lose {
		found = found[1:]
	}
	return http.StatusOK, found
}

func (s *system) getRide(r *http.Request) (int, any) {
	for _, ride := range s.rides {
		if ride.ID == id(r) {
			got := *ride
			got.Users = s.joins[ride.ID]
			if s.fault.route == "GET /api/v1/rides/{id}" {
				got.Source++
			}
			return http.StatusOK, got
		}
	}
	return http.StatusNoContent, nil
}

func (s *system) join(r *http.Request) (int, any) {
	s.joins[id(r)] = append(s.joins[id(r)], body(r)["username"].(string))
	return http.StatusOK, struct{}{}
}

func (s *system) write(r *http.Request) (int, any) {
	s.as = r.Header.Get("X-Rideshare-User")
	s.writes = append(s.writes, body(r)["values"].(map[string]any))
	return http.StatusOK, struct{}{}
}

// execute makes the table, or removes the rows of a run.
func (s *system) execute(r *http.Request) (int, any) {
	var statements []any
	_ = json.NewDecoder(r.Body).Decode(&statements)
	if _, remove := statements[0].([]any); remove {
		s.writes = nil
	}
	return http.StatusOK, struct{}{}
}

// read answers the reads that the load sends.
func (s *system) read(r *http.Request) (int, any) {
	b := body(r)
	condition := b["condition"].(map[string]any)
	rows := []any{}
	switch b["table"] {
	case "users":
		if s.users[condition["username"].(string)] > 0 && s.fault.route != "POST /api/v1/db/read" {
			rows = append(rows, condition)
		}
	case "rides":
		for _, ride := range s.rides {
			if ride.Creator == condition["created_by"] {
				rows = append(rows, ride)
			}
		}
	case "riders":
		for ride, users := range s.joins {
			for _, user := range users {
				if user == condition["user"] {
					rows = append(rows, map[string]int{"rideId": ride})
				}
			}
		}
	default:
		for _, row := range s.writes {
			rows = append(rows, row)
		}
	}
	return http.StatusOK, rows
}

func cluster(*http.Request) (int, any) {
	return http.StatusOK, map[string]any{
		"members": []map[string]any{{"role": "master", "ready": true}, {"role": "slave", "ready": true, "lag": 3}, {"role": "slave"}},
		"epoch":   7, "head_seq": 9, "desired_slaves": 2,
	}
}
