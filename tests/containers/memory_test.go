package containers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	// bombRounds is how often each bomb is sent by each of bombers at once.
	bombRounds = 2
	bombers    = 8
	// Point reads while others send bombs are answered with 200 within besideMost, their deadline. The number of those that
	// take longer than besideLimit is logged.
	besideLimit = time.Second
	besideMost  = 20 * time.Second
)

// bomb is a request that would need far more memory than a container has.
type bomb struct {
	name, method, path string
	body               func() string
}

var bombs = []bomb{
	{"a row of many large texts", http.MethodPost, "/db/query", func() string { return `["SELECT ` + columns(30, "hex(zeroblob(30000000))") + `"]` }},
	{"the same at the master", http.MethodPost, "/db/query?level=strong", func() string { return `["SELECT ` + columns(30, "hex(zeroblob(30000000))") + `"]` }},
	{"the same among writes", http.MethodPost, "/db/execute", func() string {
		return `["WITH x AS (SELECT 1) SELECT ` + columns(30, "hex(zeroblob(30000000))") + ` FROM x"]`
	}},
	{"a long list", http.MethodPost, "/db/query", func() string { return `["SELECT 1 IN (` + strings.Repeat("1,", 4<<20) + `1)"]` }},
	{"the same among writes", http.MethodPost, "/db/execute", func() string { return `["SELECT 1 IN (` + strings.Repeat("1,", 4<<20) + `1)"]` }},
	{"blobs as arrays", http.MethodPost, "/db/query?blob_array", func() string { return `["SELECT zeroblob(20000000)"]` }},
	{"large values that are not returned", http.MethodPost, "/db/query", func() string { return `["SELECT length(zeroblob(60000000)), length(hex(zeroblob(30000000)))"]` }},
	{"a large parameter", http.MethodPost, "/db/query", func() string { return `[["SELECT length(?)","` + strings.Repeat("x", 40<<20) + `"]]` }},
	{"a sort of endless rows", http.MethodPost, "/db/query", func() string {
		return `["WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT hex(randomblob(1000)) FROM x ORDER BY 1"]`
	}},
	{"one text of endless rows", http.MethodPost, "/db/query", func() string {
		return `["WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT group_concat(hex(zeroblob(1000))) FROM x"]`
	}},
}

func columns(n int, expression string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = expression + " a" + strconv.Itoa(i)
	}
	return strings.Join(list, ",")
}

// testBombs sends requests that once made processes run out of memory. No container ends, and concurrent reads are
// answered.
func (s *stack) testBombs(t *testing.T) {
	t.Helper()
	began := time.Now()
	beside := s.readBeside(t)
	for _, b := range bombs {
		body := b.body()
		s.atOnce(bombers, func() {
			for range bombRounds {
				s.send(t, b.name, b.method, s.orchestrator+b.path, body)
			}
		})
	}
	s.testLongNames(t)
	beside()
	s.noneEnded(t, began)
}

// testLongNames lists users whose names are 63 MB in all.
func (s *stack) testLongNames(t *testing.T) {
	t.Helper()
	const parts, each = 14, 5
	for i := range parts {
		testenv.Eventually(t, wholeLimit, func() error { // the bombs may have raised the broker's alarm, which refuses for some seconds
			status, text, err := s.try(t.Context(), http.MethodPost, s.orchestrator+"/db/execute", fmt.Sprintf(
				`["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) INSERT OR IGNORE INTO users SELECT 'long-%d-'||i||hex(zeroblob(450000)), 'x' FROM n"]`, each, i))
			if err != nil || status != http.StatusOK || strings.Contains(text, `"error"`) {
				return fmt.Errorf("got %d %.200s (%v)", status, text, err) //nolint:errorlint // err may be nil
			}
			return nil
		})
	}
	s.atOnce(bombers, func() { s.send(t, "all users", http.MethodGet, s.gateway+"/api/v1/users", "") })
	testenv.Eventually(t, wholeLimit, func() error { // on a slow machine it may take longer than a statement may
		text := s.call(t, http.MethodPost, s.orchestrator+"/db/execute", `["DELETE FROM users WHERE username LIKE 'long-%'"]`)
		if strings.Contains(text, `"error"`) {
			return fmt.Errorf("long names are left: %s", text)
		}
		return nil
	})
}

// atOnce runs what n times concurrently.
func (s *stack) atOnce(n int, what func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(what)
	}
	all.Wait()
}

// send sends a request that may be refused but must be answered.
func (s *stack) send(t *testing.T, name, method, url, body string) {
	t.Helper()
	status, text, err := s.try(t.Context(), method, url, body)
	answers := []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	if err != nil || !slices.Contains(answers, status) {
		t.Errorf("%s: got %d %.200s (%v), want an answer, be it a refusal", name, status, text, err)
	}
}

// readBeside makes point reads until the returned function is called, which checks that all were answered in time.
func (s *stack) readBeside(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var wrong []string
	reads, late, slowest := 0, 0, time.Duration(0)
	running.Go(func() {
		for ctx.Err() == nil {
			asked := time.Now()
			status, text, err := s.try(context.WithoutCancel(ctx), http.MethodPost, s.orchestrator+"/db/query?timeout="+besideMost.String(),
				`["SELECT count FROM apicount WHERE service_name='users'"]`)
			took := time.Since(asked)
			reads, slowest = reads+1, max(slowest, took)
			if took > besideLimit {
				late++
			}
			if err != nil || status != http.StatusOK || took > besideMost+2*time.Second {
				wrong = append(wrong, fmt.Sprintf("%d %.100s (%v) after %v", status, text, err, took))
			}
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
		t.Logf("%d point reads beside the bombs, %d over %v, the slowest took %v", reads, late, besideLimit, slowest)
		if len(wrong) > 0 {
			t.Errorf("%d of %d point reads beside the bombs were not 200 within %v: %s", len(wrong), reads, besideMost, strings.Join(wrong[:min(len(wrong), 5)], "; "))
		}
	}
}

// noneEnded checks by the engine's events that no container of the stack has run out of memory or ended since a time.
func (s *stack) noneEnded(t *testing.T, since time.Time) {
	t.Helper()
	events := s.docker(t, "events", "--since", strconv.FormatInt(since.Unix(), 10), "--until", strconv.FormatInt(time.Now().Unix()+1, 10),
		"--filter", "label=com.docker.compose.project="+s.project, "--filter", "event=oom", "--filter", "event=die",
		"--format", `{{.Action}} {{index .Actor.Attributes "name"}} {{index .Actor.Attributes "exitCode"}}`)
	if events != "" {
		t.Errorf("containers ended while bombs were sent, want none:\n%s", events)
	}
}
