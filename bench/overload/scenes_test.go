package overload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/bench/overload"
	"rideshare/internal/progressbar"
)

// fake is the orchestrator over a map: right unless it has a fault.
type fake struct {
	fault string

	mu      sync.Mutex // guards the fields below
	rows    map[float64]int
	sum     uint64 // of the values of the table that reads add up
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
	readsFail      = "answers reads with 200 and an error"
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
			f.read(w, text)
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

// read answers a read of a work: like SQLite, a sum that is no 64-bit integer is an error. The caller holds mu.
func (f *fake) read(w http.ResponseWriter, text []byte) {
	var statements [1][2]json.RawMessage
	var factor uint64
	err := json.Unmarshal(text, &statements)
	if err == nil {
		err = json.Unmarshal(statements[0][1], &factor)
	}
	high, low := bits.Mul64(f.sum, factor)
	if err != nil || high > 0 || low >= 1<<63 || f.fault == readsFail {
		_, _ = io.WriteString(w, `{"results":[{"error":"integer overflow"}]}`)
		return
	}
	_, _ = fmt.Fprintf(w, `{"results":[{"values":[[%d]]}]}`, low)
}

// fill fills the table that reads add up: the last of the statements has the number of rows. The caller holds mu.
func (f *fake) fill(text []byte) {
	var statements []json.RawMessage
	var fill []any
	if json.Unmarshal(text, &statements) != nil || json.Unmarshal(statements[len(statements)-1], &fill) != nil {
		return
	}
	rows, bound := uint64(fill[1].(float64)), uint64(fill[2].(float64))
	for i := range rows {
		f.sum += (i + 1) * 7919 % bound
	}
}

func (f *fake) execute(w http.ResponseWriter, r *http.Request, text []byte) {
	var statements [][]any
	if json.Unmarshal(text, &statements) != nil { // the tables
		f.fill(text)
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
	return playRows(t, scene, fault, 0)
}

// playRows plays the short form of a scene whose reads add up a number of rows; zero is the default.
func playRows(t *testing.T, scene, fault string, rows int) (*overload.Result, *fake) {
	t.Helper()
	f := newFake(fault)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	result, err := overload.Run(t.Context(), overload.Config{
		Scene: scene, Start: overload.StartNone, Orchestrator: server.URL, Short: true, Writes: 1050, Clients: 4, // more than a page of verify
		Rows: rows, Progress: progressbar.Output{Writer: io.Discard},
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
		{"n1", readsFail, "read, few clients: failed"},
		{"n1", givesNoReason, "without a reason"},
		{"n2", refusesModest, "read: refused of B"},
		{"n2", fails, "write: failed of B"},
		{"n2", readsFail, "read: failed of B"},
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

// However many rows a read adds up, its sum is an integer.
func TestRun_ManyRows_SumsDoNotOverflow(t *testing.T) {
	const rows = 400_000
	result, f := playRows(t, "n1", "", rows)
	if f.sum < rows {
		t.Fatalf("got a sum of %d, want that of %d rows", f.sum, rows)
	}
	if !result.OK {
		t.Errorf("got %+v, want no answer with an error", result.Checks)
	}
}

// Answers 200 with an error are failed, none is accepted, and the reason is named.
func TestRun_ReadsFail_AreNotAccepted(t *testing.T) {
	result, _ := play(t, "n1", readsFail)
	reads := 0
	for _, s := range result.Stages {
		if s.Work != "read" {
			continue
		}
		if reads++; s.Accepted != 0 || s.Failed == 0 || s.Reasons["wrong"] != s.Failed {
			t.Errorf("%s: got %d accepted, %d failed, reasons %v, want all failed as wrong", s.Name, s.Accepted, s.Failed, s.Reasons)
		}
	}
	if reads == 0 {
		t.Error("got no stage of reads")
	}
}

// The long forms judge how much of the overload was sent.
func TestRun_Overload_JudgesWhatWasSent(t *testing.T) {
	for scene, want := range map[string]string{"n1": "read at 3 times the knee: due and not sent, %", "n2": "read of A: due and not sent, %"} {
		server := httptest.NewServer(newFake(""))
		t.Cleanup(server.Close)
		result, err := overload.Run(t.Context(), overload.Config{
			Scene: scene, Start: overload.StartNone, Orchestrator: server.URL, Knee: 50, Length: 100 * time.Millisecond, Progress: progressbar.Output{Writer: io.Discard},
		})
		if err != nil || !slices.ContainsFunc(result.Checks, func(c overload.Check) bool { return c.Name == want }) {
			t.Errorf("%s: got %v and %+v, want a check %q", scene, err, result, want)
		}
	}
}

// Scenes that compare two systems start both.
func TestRun_ComparisonWithoutAStart_IsRefused(t *testing.T) {
	for _, scene := range []string{"n3", "n6"} {
		if _, err := overload.Run(t.Context(), overload.Config{Scene: scene, Start: overload.StartNone, Progress: progressbar.Output{Writer: io.Discard}}); !errors.Is(err, overload.ErrStart) {
			t.Errorf("%s: got %v, want %v", scene, err, overload.ErrStart)
		}
	}
}
