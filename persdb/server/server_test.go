package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/wire"
	"rideshare/persdb/client"
	"rideshare/persdb/server"
)

// stub returns the answers that a test stores in it.
type stub struct {
	server.Store // methods that a test does not use panic.
	head         dbaas.Head
	waited       time.Duration
	snapshot     *dbaas.Snapshot
	commits      int
}

func (s *stub) Head(context.Context) (dbaas.Head, error) { return s.head, nil }

func (s *stub) Ready(context.Context) (dbaas.Readiness, error) {
	return dbaas.Readiness{Head: s.head}, nil
}

func (s *stub) Await(_ context.Context, _ dbaas.Seq, wait time.Duration) (int64, error) {
	s.waited = wait
	return 0, nil
}

func (s *stub) Log(context.Context, dbaas.Seq, time.Duration) (dbaas.Page, error) {
	return dbaas.Page{Head: s.head}, nil
}

func (s *stub) Snapshot(context.Context) (*dbaas.Snapshot, error) { return s.snapshot, nil }

func (s *stub) Commit(context.Context, dbaas.Leadership, []dbaas.Operation) (dbaas.Commit, error) {
	s.commits++
	return dbaas.Commit{}, nil
}

func serve(t *testing.T, s server.Store) string {
	t.Helper()
	web := httptest.NewServer(server.New(s, slog.New(slog.DiscardHandler)))
	t.Cleanup(web.Close)
	return web.URL
}

// Invalid requests never reach the store.
func TestServer_BadRequests(t *testing.T) {
	s := &stub{}
	url := serve(t, s)
	good, err := wire.WriteRequest{}.Encode(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	endless := io.LimitReader(zeros{}, wire.MaxBytes+1)
	for _, tc := range []struct {
		method, path string
		body         io.Reader
		header       []string
		want         int
	}{
		{"POST", "/v1/commit", bytes.NewReader(good), nil, http.StatusBadRequest},
		{"POST", "/v1/commit", bytes.NewReader(good), []string{"X-Epoch", "-1"}, http.StatusBadRequest},
		{"POST", "/v1/commit", strings.NewReader("nonsense"), []string{"X-Epoch", "1"}, http.StatusBadRequest},
		{"POST", "/v1/commit", endless, []string{"X-Epoch", "1"}, http.StatusRequestEntityTooLarge},
		{"GET", "/v1/commit", nil, nil, http.StatusMethodNotAllowed},
		{"GET", "/v1/log", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/log?after=x", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/log?after=18446744073709551615", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/log?after=1&wait=-1", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/changes?after=1", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/changes?after=1&size=-1", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/changes?after=x&size=1", nil, nil, http.StatusBadRequest},
		{"GET", "/v1/operations/nonsense", nil, nil, http.StatusBadRequest},
		{"GET", "/nowhere", nil, nil, http.StatusNotFound},
	} {
		if got := apitest.Send(t, tc.method, url+tc.path, tc.body, tc.header...); got.Status != tc.want {
			t.Errorf("%s %s: got %d %s, want %d", tc.method, tc.path, got.Status, got.Body, tc.want)
		}
	}
	if s.commits != 0 {
		t.Errorf("%d commits reached the store", s.commits)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Health and head answer as tools expect them.
func TestServer_HealthAndHead(t *testing.T) {
	url := serve(t, &stub{head: dbaas.Head{Cluster: dbaas.ClusterID{1}, Seq: 7, Epoch: 3}})
	head := `{"cluster":"01000000000000000000000000000000","seq":7,"epoch":3}`
	ready := strings.Replace(head, "}", `,"active":false}`, 1) // an inactive one is healthy, too.
	for path, want := range map[string]string{"/livez": "{}", "/readyz": ready, "/v1/head": head} {
		if got := apitest.Do(t, "GET", url+path, ""); got.Status != http.StatusOK || got.Body != want {
			t.Errorf("%s: got %d %s, want %s", path, got.Status, got.Body, want)
		}
	}
}

// A long poll is bounded, even if the caller asks for more.
func TestServer_LogWaitIsBounded(t *testing.T) {
	s := &stub{}
	url := serve(t, s)
	for text, want := range map[string]time.Duration{"0": 0, "250": 250 * time.Millisecond, "2000000000": time.Minute} {
		if got := apitest.Do(t, "GET", url+"/v1/log?after=1&wait="+text, ""); got.Status != http.StatusOK || s.waited != want {
			t.Errorf("wait %s: got %d %s, waited %v, want %v", text, got.Status, got.Body, s.waited, want)
		}
	}
}

// breaking is a snapshot's body whose disk fails half way.
type breaking struct{ left int }

func (b *breaking) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("disk failed")
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

func (b *breaking) Close() error { return nil }

// A snapshot that cannot be read to its end is cut off, so that its reader notices.
func TestServer_Snapshot_FailureCutsBody(t *testing.T) {
	url := serve(t, &stub{snapshot: &dbaas.Snapshot{Body: &breaking{left: 300 << 10}}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/snapshot", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("got %d bytes without an error", n)
	}
}

// crowd is a store whose commits and pages of the log last until leave is closed.
type crowd struct {
	stub

	size  int64 // of a page
	leave chan struct{}
	now   atomic.Int32
}

func (c *crowd) stay() {
	c.now.Add(1)
	<-c.leave
}

func (c *crowd) Await(context.Context, dbaas.Seq, time.Duration) (int64, error) { return c.size, nil }

func (c *crowd) Log(context.Context, dbaas.Seq, time.Duration) (dbaas.Page, error) {
	c.stay()
	return dbaas.Page{}, nil
}

func (c *crowd) Commit(context.Context, dbaas.Leadership, []dbaas.Operation) (dbaas.Commit, error) {
	c.stay()
	return dbaas.Commit{}, nil
}

// Large bodies and large pages wait for each other; small ones do not wait.
func TestServer_LargeRequestsWait(t *testing.T) {
	const callers = 5
	for name, tc := range map[string]struct {
		page int64 // 0: a commit
		body int
		want int32
	}{
		"LargeCommits": {0, 9 << 20, 1},
		"SmallCommits": {0, 1 << 10, callers},
		"LargePages":   {60 << 20, 0, 2},
		"SmallPages":   {4 << 20, 0, callers},
	} {
		t.Run(name, func(t *testing.T) {
			op := dbaas.Operation{Statements: []dbaas.Statement{{SQL: strings.Repeat(" ", tc.body)}}}
			body, err := wire.WriteRequest{Operations: []dbaas.Operation{op}}.Encode(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				store := &crowd{size: tc.page, leave: make(chan struct{})}
				handler := server.New(store, slog.New(slog.DiscardHandler))
				answers := make([]*httptest.ResponseRecorder, callers)
				for i := range answers {
					answers[i] = httptest.NewRecorder()
					r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/log?after=0", nil)
					if tc.page == 0 {
						r = httptest.NewRequestWithContext(t.Context(), "POST", "/v1/commit", bytes.NewReader(body))
						r.Header.Set("X-Epoch", "1")
					}
					go handler.ServeHTTP(answers[i], r)
				}
				synctest.Wait()
				if got := store.now.Load(); got != tc.want {
					t.Errorf("%d at once, want %d", got, tc.want)
				}
				close(store.leave)
				synctest.Wait()
				for _, a := range answers {
					if a.Code != http.StatusOK {
						t.Errorf("got %d: %s", a.Code, a.Body)
					}
				}
			})
		})
	}
}

// Every answer, also that of an error, has the time of the server's clock.
func TestServer_AnswersTellTheTime(t *testing.T) {
	t.Parallel()
	handler := server.New(&stub{}, slog.New(slog.DiscardHandler))
	for _, path := range []string{client.PathOperations + "no-id", "/livez"} {
		answer, before := httptest.NewRecorder(), time.Now().UnixMicro()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		got, err := strconv.ParseInt(answer.Header().Get(client.HeaderTime), 10, 64)
		if after := time.Now().UnixMicro(); err != nil || got < before || got > after {
			t.Errorf("%s: got %d and error %v, want a time from %d to %d", path, got, err, before, after)
		}
	}
}
