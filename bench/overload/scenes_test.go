package overload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"rideshare/bench/overload"
)

// fake is the orchestrator over a map: right unless it has a fault.
type fake struct {
	fault string

	mu      sync.Mutex // guards the fields below
	rows    map[float64]int
	writes  int
	open    string           // the breaker that is open
	patches []map[string]any // that were sent
	alarm   string           // a file that exists while the broker has an alarm
	crashed map[string]int   // how often each role was crashed
	asked   int              // how often it was asked whether it is ready since the last crash
}

// The faults.
const (
	losesWrites    = "loses writes"
	doublesWrites  = "doubles writes"
	writesRefused  = "does what it refuses"
	fails          = "fails"
	refusesModest  = "refuses the modest user"
	givesNoReason  = "gives no reason"
	ignoresBreaker = "ignores open breakers"
	staysClosed    = "keeps breakers open"
	wrongReason    = "gives another reason"
)

// reasons are those of the breakers.
var reasons = map[string]string{"broker": "broker", "slaves": "slaves", "master": "master", "depth": "depth_breaker"}

// settings are those before a scene.
const settings = `{"inflight":{"value":7,"source":"patch"},"event_breaker.preset":{"value":"none","source":"environment"},
	"lanes.read":{"value":9,"source":"patch"},"lanes.write":{"value":8,"source":"environment"},
	"depth.wait":{"value":5000,"source":"environment"},"depth.open":{"value":10000,"source":"environment"},"breakers.master":{"value":"auto","source":"environment"}}`

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "POST /api/v1/crash/slave", "POST /api/v1/crash/master":
		f.crash(strings.TrimPrefix(r.URL.Path, "/api/v1/crash/"))
	case "GET /readyz":
		f.ready(w)
	case "GET /api/v1/admission":
		breakers := map[string]any{}
		for name := range reasons {
			breakers[name] = map[string]string{"state": map[bool]string{true: "open", false: "closed"}[name == f.opened()]}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"stages": map[string]any{"inflight": map[string]int{"now": 0}}, "breakers": breakers, "settings": json.RawMessage(settings),
		})
	case "PATCH /api/v1/admission":
		f.patch(text)
		_, _ = io.WriteString(w, `{}`)
	case "GET /metrics":
		_, _ = io.WriteString(w, "go_goroutines 10\nprocess_resident_memory_bytes 1e6\n")
	case "POST /db/query":
		f.query(w, r, text)
	case "POST /db/execute":
		f.execute(w, r, text)
	}
}

func (f *fake) patch(text []byte) {
	var patch map[string]any
	_ = json.Unmarshal(text, &patch)
	f.patches = append(f.patches, patch)
	breakers, named := patch["breakers"]
	switch held, _ := breakers.(map[string]any); {
	case named && len(held) == 0 && f.fault != staysClosed:
		f.open = ""
	case named && f.fault != ignoresBreaker:
		for name := range held {
			f.open = name
		}
	}
	if depth, changed := patch["depth"]; changed && f.fault != ignoresBreaker {
		limits, _ := depth.(map[string]any)
		f.open = map[bool]string{true: "depth"}[limits["open"] != nil]
	}
}

// refuse answers a request of a work that is to be refused, and reports whether it did.
func (f *fake) refuse(w http.ResponseWriter, r *http.Request) bool {
	reason := reasons[f.opened()]
	switch {
	case reason != "" && f.fault == wrongReason:
		reason = "deadline"
	case reason != "":
	case f.fault == fails:
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	case f.fault == refusesModest && r.Header.Get("X-Rideshare-User") == "B":
		reason = "user_queue"
	case f.fault == givesNoReason:
	default:
		return false
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(w, `{"reason":%q}`, reason)
	return true
}

func newFake(fault string) *fake {
	return &fake{fault: fault, rows: map[float64]int{}, crashed: map[string]int{}}
}

func (f *fake) query(w http.ResponseWriter, r *http.Request, text []byte) {
	if r.URL.RawQuery == "" {
		if !f.refuse(w, r) {
			_, _ = io.WriteString(w, `{"results":[{"values":[[1]]}]}`)
		}
		return
	}
	var statements [][]any
	_ = json.Unmarshal(text, &statements)
	values := [][]float64{}
	for n, rows := range f.rows {
		if n >= statements[0][2].(float64) && n < statements[0][3].(float64) {
			values = append(values, []float64{n, float64(rows)})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": []any{map[string]any{"values": values}}})
}

func (f *fake) execute(w http.ResponseWriter, r *http.Request, text []byte) {
	var statements [][]any
	if json.Unmarshal(text, &statements) != nil { // the tables
		return
	}
	f.writes++
	n, odd := statements[0][2].(float64), f.writes%2 == 1
	lost := f.fault == losesWrites && odd
	if f.refuse(w, r) {
		lost = f.fault != writesRefused
	}
	if !lost {
		f.rows[n] = int(statements[0][3].(float64))
	}
	if f.fault == doublesWrites && odd {
		f.rows[n] *= 2
	}
}

func play(t *testing.T, scene, fault string) (*overload.Result, *fake) {
	t.Helper()
	f := newFake(fault)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	result, err := overload.Run(t.Context(), overload.Config{
		Scene: scene, Start: overload.StartNone, Orchestrator: server.URL, Short: true, Writes: 1050, Clients: 4, // more than a page of verify
		Progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	return result, f
}

// Each scene finds a system good that is, and leaves no settings behind.
func TestRun_GoodSystem_IsGood(t *testing.T) {
	for _, scene := range []string{"n1", "n2", "n4", "n5"} {
		t.Run(scene, func(t *testing.T) {
			result, f := play(t, scene, "")
			if !result.OK || len(result.Stages) == 0 {
				t.Errorf("got %+v, want it good", result)
			}
			last := f.patches[len(f.patches)-1]
			for name, value := range last {
				want := map[string]any{
					"event_breaker": map[string]any{"preset": nil}, "breakers": map[string]any{"master": nil}, "lanes": map[string]any{"read": 9.0, "write": nil},
					"depth": map[string]any{"wait": nil, "open": nil},
				}[name]
				if !reflect.DeepEqual(value, want) {
					t.Errorf("at the end %s is set to %v, want what it was before: %v", name, value, want)
				}
			}
			for _, patch := range f.patches {
				for name := range patch {
					if _, restored := last[name]; !restored {
						t.Errorf("%s is not set back", name)
					}
				}
			}
		})
	}
}

// Each scene finds what is wrong, and tells which check was missed.
func TestRun_Fault_IsFound(t *testing.T) {
	for _, c := range []struct{ scene, fault, missed string }{
		{"n1", losesWrites, "missing, doubled"},
		{"n1", doublesWrites, "missing, doubled"},
		{"n1", fails, "read, few clients: failed"},
		{"n1", givesNoReason, "without a reason"},
		{"n2", refusesModest, "read: refused of B"},
		{"n2", fails, "write: failed of B"},
		{"n4", losesWrites, "missing, doubled"},
		{"n4", fails, "failed, also"},
		{"n4", givesNoReason, "refused"},
		{"n5", ignoresBreaker, "broker held open: accepted"},
		{"n5", wrongReason, "another reason"},
		{"n5", staysClosed, "closed again"},
		{"n5", writesRefused, "refused writes that were done"},
	} {
		t.Run(c.scene+" "+c.fault, func(t *testing.T) {
			result, _ := play(t, c.scene, c.fault)
			if result.OK {
				t.Error("got a good result")
			}
			for _, check := range result.Checks {
				if strings.Contains(check.Name, c.missed) && !check.OK {
					return
				}
			}
			t.Errorf("got checks %+v, want one missed with %q", result.Checks, c.missed)
		})
	}
}

// Scenes that compare two systems start both.
func TestRun_ComparisonWithoutAStart_IsRefused(t *testing.T) {
	for _, scene := range []string{"n3", "n6"} {
		if _, err := overload.Run(t.Context(), overload.Config{Scene: scene, Start: overload.StartNone, Progress: io.Discard}); !errors.Is(err, overload.ErrStart) {
			t.Errorf("%s: got %v, want %v", scene, err, overload.ErrStart)
		}
	}
}
