package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// answer is what came back for one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// try sends one request to the orchestrator. headers alternates names and values. An error means that there was no answer.
func (s *system) try(ctx context.Context, method, path string, body any, headers ...string) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.orchestrator+path, strings.NewReader(string(text)))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.send(req)
}

// post is try for calls of db/*, which must be answered, with success or not, soon after their deadline at the latest.
// fail is called if the call took longer.
func (s *system) post(ctx context.Context, fail func(error), path string, body any, headers ...string) (answer, error) {
	began := time.Now()
	a, err := s.try(ctx, http.MethodPost, path, body, headers...)
	if took, limit := time.Since(began), s.callTimeout()+answerLate; took > limit {
		fail(errors.Join(fmt.Errorf("POST %s: answered after %v with %d, want within %v", path, took, a.status, limit), err))
	}
	return a, err
}

// callTimeout returns the deadline that the system has for each call.
func (s *system) callTimeout() time.Duration {
	timeout := callTimeout
	for _, setting := range s.env {
		if text, ok := strings.CutPrefix(setting, "CALL_TIMEOUT="); ok {
			timeout, _ = time.ParseDuration(text) // the system does not start with a wrong one
		}
	}
	return timeout
}

func (s *system) send(req *http.Request) (answer, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// get decodes a JSON answer whose status must be 200.
func get[T any](s *system, path string) (T, error) {
	var v T
	a, err := s.try(context.Background(), http.MethodGet, path, nil)
	if err != nil {
		return v, err
	}
	if a.status != http.StatusOK {
		return v, fmt.Errorf("GET %s: got %d %.200s, want 200", path, a.status, a.body)
	}
	return v, json.Unmarshal(a.body, &v)
}

// results are the answers to the statements of one call.
type results struct {
	Results []struct {
		Values [][]json.RawMessage
		Error  string
	}
}

// exec runs statements as one transaction, which must succeed.
func (s *system) exec(t *testing.T, statements ...string) {
	t.Helper()
	key := fmt.Sprintf("exec-%d", time.Now().UnixNano()) // With the key the request can be repeated safely.
	testenv.Eventually(t, healLimit, func() error {
		a, err := s.try(t.Context(), http.MethodPost, "/db/execute?transaction", statements, "Idempotency-Key", key)
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("%q: got %d %.300s, want 200: %w", statements, a.status, a.body, err)
		}
		if strings.Contains(string(a.body), `"error"`) {
			t.Fatalf("%q: got %.300s, want no error", statements, a.body)
		}
		return nil
	})
}

// errRefused means that a read was answered with 503 or 504.
var errRefused = errors.New("refused")

// rows returns what a read answers at the default level, which sees every acknowledged write. A refused read is repeated.
func (s *system) rows(t *testing.T, query string) (rows [][]json.RawMessage) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() (err error) {
		if rows, err = s.query(query); err != nil && !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
		return err
	})
	return rows
}

// query is rows with one try.
func (s *system) query(query string) ([][]json.RawMessage, error) {
	a, err := s.try(context.Background(), http.MethodPost, "/db/query", []string{query})
	switch {
	case err != nil || a.status == http.StatusOK:
	case a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout:
		err = errRefused
	default:
		err = errors.New("want 200")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: got %d %.300s: %w", query, a.status, a.body, err)
	}
	var got results
	if err = json.Unmarshal(a.body, &got); err == nil && (len(got.Results) != 1 || got.Results[0].Error != "") {
		err = errors.New("want one result")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: got %.300s: %w", query, a.body, err)
	}
	return got.Results[0].Values, nil
}

// member is one worker of GET cluster.
type member struct {
	PID       int
	Role      string
	Ready     bool
	Container string
}

// cluster is the answer of GET cluster.
type cluster struct {
	Members []member
	Epoch   uint64
	Leader  bool
	ID      string `json:"cluster_id"`
}

func (s *system) cluster(t *testing.T) cluster {
	t.Helper()
	var c cluster
	testenv.Eventually(t, healLimit, func() (err error) {
		if c, err = get[cluster](s, "/api/v1/cluster"); err == nil && (c.Epoch == 0 || c.ID == "") {
			err = errors.New("persdb has not told its epoch and id in time")
		}
		return err
	})
	return c
}

// pids returns the pids of the workers with that role, ascending.
func (c cluster) pids(role string) []int {
	var pids []int
	for _, m := range c.Members {
		if m.Role == role {
			pids = append(pids, m.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

// all returns the pids of all workers, ascending.
func (c cluster) all() []int {
	return slices.Sorted(slices.Values(append(c.pids("master"), c.pids("slave")...)))
}

// awaitWhole waits until the system answers that it is ready, with one master and that many slaves, all of them ready.
func (s *system) awaitWhole(t *testing.T, slaves int) cluster {
	t.Helper()
	var c cluster
	testenv.Eventually(t, healLimit, func() error {
		var err error
		if c, err = get[cluster](s, "/api/v1/cluster"); err != nil {
			return err
		}
		unready := slices.ContainsFunc(c.Members, func(m member) bool { return !m.Ready })
		if len(c.pids("master")) != 1 || len(c.pids("slave")) != slaves || unready || c.Epoch == 0 { // epoch 0: persdb has not answered in time
			return fmt.Errorf("got %+v, want one master and %d slaves, all ready", c, slaves)
		}
		_, err = get[json.RawMessage](s, "/readyz")
		return err
	})
	return c
}

// signal sends sig to a process of the system.
func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}
