package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/internal/testkit/testenv"
)

// server answers each request with serve.
func server(t *testing.T, serve http.HandlerFunc) *db.Client {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return db.New(s.URL+"/", "ann", "Bearer x")
}

func TestExecute_SendsAllOptions(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		got := r.URL.String() + " " + string(body) + " " + h.Get("X-Rideshare-User") + " " + h.Get("Authorization") + " " +
			h.Get("Idempotency-Key") + " " + h.Get("Prefer") + " " + h.Get("X-Min-Seq") + " " + h.Get("X-Cluster-Id")
		if want := `/db/request?level=strong [["SELECT ?",1]] ann Bearer x k respond-async 7 c`; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		w.Header().Set("X-Seq", "8")
		w.Header().Set("X-Cluster-Id", "c")
		w.Header().Set("X-Operation-Id", "o")
		_, _ = io.WriteString(w, `{"results":[{"values":[[4611686018427387905]]},{"error":"no"}]}`)
	})
	o := db.Options{Key: "k", Async: true, Rows: true, Level: "strong", MinSeq: "7", Cluster: "c"}
	a, err := c.Execute(t.Context(), o, db.SQL("SELECT ?", 1))
	if err != nil || a.Position() != "c:8" || a.Operation != "o" || a.Results[0].Values[0][0] != json.Number("4611686018427387905") || a.Results[1].Error != "no" {
		t.Errorf("got %+v, %v", a, err)
	}
}

// The answer has the whole result of each statement, and Err is the first error of them.
func TestAnswer_Err(t *testing.T) {
	for results, want := range map[string]string{`[{}]`: "<nil>", `[{"rows_affected":1},{"error":"no"},{"error":"never"}]`: "no"} {
		c := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"results":`+results+`}`) })
		a, err := c.Execute(t.Context(), db.Options{}, db.SQL("SELECT 1"))
		if err != nil || fmt.Sprint(a.Err()) != want || (want != "<nil>") != (a.Results[0].RowsAffected == 1) {
			t.Errorf("%s: got %+v, %v, want error %s", results, a, err, want)
		}
	}
	for _, tt := range []struct {
		value any
		want  int64
	}{{json.Number("4611686018427387905"), 4611686018427387905}, {nil, 0}, {"text", 0}} {
		if got := db.Int(tt.value); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.value, got, tt.want)
		}
	}
}

func TestRefusal_SaysWhatIsKnown(t *testing.T) {
	tests := []struct {
		name    string
		serve   http.HandlerFunc
		want    db.Refusal
		unknown bool
	}{
		{"Overload", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"detail":"too much","reason":"user-rate","retry_after_ms":1500}`)
		}, db.Refusal{Status: 429, Reason: "user-rate", Message: "too much", RetryAfter: 1500 * time.Millisecond}, false},
		{"NoBody", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, db.Refusal{Status: 503, Message: "503 Service Unavailable", RetryAfter: 2 * time.Second}, false},
		{"EarlierAttemptStillRuns", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"detail":"still running"}`)
		}, db.Refusal{Status: 409, Message: "still running"}, true},
		{"Unknown", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"title":"late"}`)
		}, db.Refusal{Status: 504, Message: "late"}, true},
		{"CutOff", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"results":[`)
		}, db.Refusal{Status: 504, Message: "no answer from the database: unexpected EOF"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := server(t, tt.serve).Execute(t.Context(), db.Options{}, db.SQL("SELECT 1"))
			if r, ok := errors.AsType[*db.Refusal](err); !ok || *r != tt.want || r.Unknown() != tt.unknown {
				t.Errorf("got %+v, want %+v", r, tt.want)
			}
		})
	}
	_, err := db.New("http://"+testenv.FreeAddress(t), "ann", "").Query(t.Context(), db.Options{}, db.SQL("SELECT 1"))
	if r, ok := errors.AsType[*db.Refusal](err); !ok || r.Status != http.StatusServiceUnavailable || r.Unknown() {
		t.Errorf("nobody there: got %v, want 503", err)
	}
}

// A write that was sent when the database died is unknown, although the database cannot be reached afterwards.
func TestExecute_DatabaseDies_IsUnknown(t *testing.T) {
	var s *httptest.Server
	calls := 0
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls > 1 { // on a connection that was used before, so that the transport sends the request again
			_ = s.Listener.Close()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"results":[{}]}`)
	}))
	t.Cleanup(s.Close)
	c := db.New(s.URL, "ann", "")
	_, first := c.Execute(t.Context(), db.Options{Key: "1"}, db.SQL("SELECT 1"))
	_, err := c.Execute(t.Context(), db.Options{Key: "2"}, db.SQL("SELECT 1"))
	if r, refused := errors.AsType[*db.Refusal](err); first != nil || !refused || !r.Unknown() {
		t.Errorf("got %v, then %v, want an unknown outcome", first, err)
	}
}

// A write is sent again under its key while its outcome is unknown, and only then.
func TestInsist(t *testing.T) {
	for _, tt := range []struct{ answers, want []int }{
		{[]int{200}, []int{200}},
		{[]int{503, 200}, []int{503}},
		{[]int{504, 409, 503, 200}, []int{504, 409, 503, 200}},
		{[]int{409, 503, 200}, []int{409, 503, 200}},
		{[]int{504, 422}, []int{504, 422}},
		{[]int{422}, []int{422}},
	} {
		var got []int
		c := server(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") != "k" {
				t.Errorf("got key %q", r.Header.Get("Idempotency-Key"))
			}
			got = append(got, tt.answers[len(got)])
			w.WriteHeader(got[len(got)-1])
			_, _ = io.WriteString(w, `{"results":[{}]}`)
		})
		_, err := c.Insist(t.Context(), db.Options{Key: "k"}, db.SQL("SELECT 1"))
		last := http.StatusOK
		if r, refused := errors.AsType[*db.Refusal](err); refused {
			last = r.Status
		}
		if !slices.Equal(got, tt.want) || last != tt.want[len(tt.want)-1] {
			t.Errorf("%v: got %v, then %v", tt.answers, got, err)
		}
	}
	c := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Insist(ctx, db.Options{Key: "k"}, db.SQL("SELECT 1"))
	if r, refused := errors.AsType[*db.Refusal](err); !refused || !r.Unknown() {
		t.Errorf("ended: got %v, want an unknown outcome", err)
	}
}

func TestChanges_StartsAtThePositionAndIgnoresHalfAnEvent(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "after=c%3A4&tables=a%2Cb" {
			t.Errorf("got query %s", got)
		}
		w.Header().Set("X-Seq", "4")
		w.Header().Set("X-Cluster-Id", "c")
		_, _ = io.WriteString(w, `{"cluster":"c","seq":5,"changes":[{"op":"insert","table":"a","key":{"id":1},"after":{"id":1}}]}`+"\n"+`{"cluster":"c","seq":6`)
	})
	var got []db.Event
	err := c.Changes(t.Context(), "c:4", "a,b", func(e db.Event) error {
		got = append(got, e)
		return nil
	})
	if err == nil || len(got) != 2 || got[0].Position() != "c:4" || got[1].Position() != "c:5" {
		t.Fatalf("got %+v, %v, want positions 4 and 5, then an error", got, err)
	}
	if change := got[1].Changes[0]; change.Op != "insert" || change.Table != "a" || change.Key["id"] != json.Number("1") {
		t.Errorf("got %+v", change)
	}
	stop := errors.New("enough")
	if err = c.Changes(t.Context(), "c:4", "a,b", func(db.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the caller's error", err)
	}
}
