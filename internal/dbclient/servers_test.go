package dbclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/instances"
	"rideshare/internal/testkit/dbtest"
	"rideshare/internal/testkit/testenv"
)

// orchestrator answers every request, and remembers all but probes.
type orchestrator struct {
	*httptest.Server

	answer http.HandlerFunc // nil: done

	mu   sync.Mutex // guards seen
	seen []http.Header
}

func newOrchestrator(t *testing.T, answer http.HandlerFunc) *orchestrator {
	t.Helper()
	o := &orchestrator{answer: answer}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodOptions { // a probe meets what the first request meets
			if answer != nil {
				answer(w, r)
			}
			return
		}
		o.mu.Lock()
		o.seen = append(o.seen, r.Header)
		o.mu.Unlock()
		if o.answer != nil {
			o.answer(w, r)
			return
		}
		_, _ = fmt.Fprint(w, `{"results":[{"rows_affected":1}]}`)
	}))
	o.Config.DisableGeneralOptionsHandler = true
	o.Start()
	t.Cleanup(o.Close)
	return o
}

// header returns the values of a header, one for each request.
func (o *orchestrator) header(name string) (values []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.seen {
		values = append(values, h.Get(name))
	}
	return values
}

// fails answers with an error.
func fails(code dbaas.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { dbtest.Refusal(w, r, code) }
}

// resets drops the connection once the request was read.
func resets(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func execute(ctx context.Context, c *dbclient.Client) error {
	_, err := c.Execute(ctx, dbclient.Options{}, dbclient.SQL("x"))
	return err
}

func query(ctx context.Context, c *dbclient.Client) error {
	_, err := c.Query(ctx, dbclient.Options{}, dbclient.SQL("x"))
	return err
}

// probing is newClient with the time that a probe may take.
func probing(t *testing.T, url string, probeTime time.Duration) *dbclient.Client {
	t.Helper()
	defer instances.SetProbeTime(probeTime)()
	return newClient(t, url)
}

// What a write and a read come to when the first orchestrator fails in some way, and what the second one is asked.
func TestClient_TwoOrchestrators(t *testing.T) {
	refused := func(t *testing.T) string { t.Helper(); return "http://" + testenv.FreeAddress(t) }
	paused := func(t *testing.T) string {
		t.Helper()
		n := testenv.NewNetwork(t, newOrchestrator(t, nil).URL)
		n.Cut()
		return "http://" + n.Addr()
	}
	reset := func(t *testing.T) string { t.Helper(); return newOrchestrator(t, resets).URL }
	for _, tt := range []struct {
		name   string
		first  func(*testing.T) string
		second http.HandlerFunc
		call   func(context.Context, *dbclient.Client) error
		want   dbaas.Code
		asked  int // requests at the second
	}{
		{"RefusedWrite", refused, nil, execute, dbaas.CodeOK, 1},
		{"RefusedRead", refused, nil, query, dbaas.CodeOK, 1},
		{"PausedWrite", paused, nil, execute, dbaas.CodeOK, 1},
		{"PausedRead", paused, nil, query, dbaas.CodeUnavailable, 0}, // it may be what broke the first one
		{"ResetWrite", reset, nil, execute, dbaas.CodeOK, 1},
		{"ResetRead", reset, nil, query, dbaas.CodeUnavailable, 0},
		// What the second one says about itself says nothing about what the first one has done.
		{"ResetWriteThenRefused", reset, fails(dbaas.CodeUnavailable), execute, dbaas.CodeUnknown, 2},
		{"ResetWriteThenUnknown", reset, fails(dbaas.CodeUnknown), execute, dbaas.CodeUnknown, 2},
		{"ResetWriteThenInvalid", reset, fails(dbaas.CodeInvalid), execute, dbaas.CodeUnknown, 1},
		{"ResetWriteThenMismatch", reset, fails(dbaas.CodeMismatch), execute, dbaas.CodeMismatch, 1}, // the key's own answer
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := newOrchestrator(t, tt.second)
			probeTime := living
			if strings.HasPrefix(tt.name, "Paused") {
				probeTime = 5 * time.Second
			}
			c := probing(t, tt.first(t)+","+second.URL, probeTime)
			t.Parallel()
			if err := tt.call(t.Context(), c); dbaas.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			keys := second.header("Idempotency-Key")
			if len(keys) != tt.asked || len(slices.Compact(keys)) > 1 {
				t.Errorf("the second was asked with keys %q, want %d times with one key", keys, tt.asked)
			}
			// The first is dead now: the second is asked at once.
			second.answer = nil
			if err := query(t.Context(), c); err != nil {
				t.Errorf("the next read: %v", err)
			}
		})
	}
}

// The repeated write has the key, the body and the operation's id of the first attempt.
func TestClient_TwoOrchestrators_SameKey(t *testing.T) {
	first, second := newOrchestrator(t, resets), newOrchestrator(t, nil)
	c := newClient(t, first.URL+","+second.URL)
	if err := execute(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if a, b := first.header("Idempotency-Key"), second.header("Idempotency-Key"); len(a) != 1 || a[0] == "" || !slices.Equal(a, b) {
		t.Errorf("got keys %q and %q, want one, the same", a, b)
	}
}

// A host that dies over many requests does not open the breaker while another one lives.
func TestClient_TwoOrchestrators_ManyLost(t *testing.T) {
	first, second := newOrchestrator(t, resets), newOrchestrator(t, nil)
	c, err := dbclient.New(dbclient.Config{URL: first.URL + "," + second.URL, BreakAfter: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := execute(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := c.Outcomes(); got.Broken != 0 {
		t.Errorf("got %+v, want no open breaker", got)
	}
}

const oldCluster, newCluster = "08000000000000000000000000000000", "09000000000000000000000000000000"

// at answers with a position.
func at(cluster, seq string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Cluster-Id", cluster)
		if seq != "" {
			w.Header().Set("X-Seq", seq)
		}
		_, _ = fmt.Fprint(w, `{"results":[{}]}`)
	}
}

// A read asks for the largest position that any answer had, at whatever orchestrator serves it, and for the client's own if that
// is larger.
func TestClient_AsksForTheNewestPosition(t *testing.T) {
	o := newOrchestrator(t, nil)
	c := newClient(t, o.URL+",http://"+testenv.FreeAddress(t))
	ask := func(minSeq dbaas.Seq, wantSeq, wantCluster string) {
		t.Helper()
		before := len(o.header("X-Min-Seq"))
		if _, err := c.Query(t.Context(), dbclient.Options{MinSeq: minSeq}, dbclient.SQL("x")); err != nil {
			t.Error(err)
		}
		if _, err := c.Rows(t.Context(), dbclient.Options{MinSeq: minSeq}, dbclient.SQL("x"), func(dbaas.Seq, []any) error { return nil }); err != nil {
			t.Error(err)
		}
		seqs, clusters := o.header("X-Min-Seq")[before:], o.header("X-Cluster-Id")[before:]
		if !slices.Equal(seqs, []string{wantSeq, wantSeq}) || !slices.Equal(clusters, []string{wantCluster, wantCluster}) {
			t.Errorf("got X-Min-Seq %q of %q, want %q of %q", seqs, clusters, wantSeq, wantCluster)
		}
	}
	ask(0, "", "")
	o.answer = at(oldCluster, "7")
	if err := execute(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := o.header("X-Min-Seq"); got[len(got)-1] != "" {
		t.Errorf("a write asks for %q, want nothing", got[len(got)-1])
	}
	o.answer = at(oldCluster, "5") // an answer that was read before
	ask(0, "7", oldCluster)
	ask(6, "7", oldCluster)
	ask(8, "8", "") // the client's own position may be of any cluster
	o.answer = at(oldCluster, "")
	ask(0, "7", oldCluster)
	o.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Seq", "9") // of which cluster?
		_, _ = fmt.Fprint(w, `{"results":[{}]}`)
	}
	ask(0, "7", oldCluster)
}

// The only orchestrator knows of all its writes: it is asked for nothing.
func TestClient_OneOrchestrator_NoPosition(t *testing.T) {
	o := newOrchestrator(t, at(oldCluster, "7"))
	c := newClient(t, o.URL)
	for range 2 {
		if err := query(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if got := o.header("X-Min-Seq"); got[1] != "" {
		t.Errorf("asked for position %s, want none", got[1])
	}
}

// A position of a database that was replaced is dropped, and the read that asked for it is sent again without it. Positions of the
// new database begin again, however small they are.
func TestClient_PositionOfAnotherCluster(t *testing.T) {
	replaced := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Cluster-Id") == oldCluster {
			fails(dbaas.CodeGone)(w, r)
			return
		}
		at(newCluster, "2")(w, r)
	}
	for name, read := range map[string]func(*dbclient.Client) error{
		"Query": func(c *dbclient.Client) error { return query(t.Context(), c) },
		"Rows": func(c *dbclient.Client) error {
			_, err := c.Rows(t.Context(), dbclient.Options{}, dbclient.SQL("x"), func(dbaas.Seq, []any) error { return nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrchestrator(t, at(oldCluster, "7"))
			c := newClient(t, "http://"+testenv.FreeAddress(t)+","+o.URL)
			if err := execute(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			o.answer = replaced
			for range 2 {
				if err := read(c); err != nil {
					t.Errorf("got %v, want an answer", err)
				}
			}
			if got := strings.Join(o.header("X-Min-Seq"), " "); got != " 7  2" {
				t.Errorf("asked for positions %q, want 7, none, 2", got)
			}
		})
	}
}

// After a minute every orchestrator knows of a write.
func TestNewest_EndsAfterAMinute(t *testing.T) {
	n, now := &dbclient.Newest{}, time.Unix(1_000_000, 0)
	n.Note(http.Header{"X-Seq": {"7"}, "X-Cluster-Id": {oldCluster}}, now)
	n.Note(http.Header{"X-Seq": {"7"}, "X-Cluster-Id": {oldCluster}}, now.Add(time.Minute-1)) // not newer
	if !n.Asks(now.Add(time.Minute - 1)) {
		t.Error("within a minute: got no position")
	}
	if n.Asks(now.Add(time.Minute)) {
		t.Error("after a minute: got a position")
	}
}

// However many answers come at once, the position never falls.
func TestNewest_Concurrent(t *testing.T) {
	n, now := &dbclient.Newest{}, time.Now()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { n.Note(http.Header{"X-Seq": {fmt.Sprint(i)}, "X-Cluster-Id": {oldCluster}}, now) })
	}
	all.Wait()
	if got := n.Seq(); got != 99 {
		t.Errorf("got %d, want 99", got)
	}
}
