package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// SIGTERM ends `up` in time and with exit code 0, whatever runs or waits. Each pending request is answered with its result, 503
// or 504. Everything acknowledged is there at the next start.
func TestUp_StopUnderSlowStatements_EachRequestIsAnswered(t *testing.T) {
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
	for name, c := range map[string]struct {
		path, statement string
		head            []string
	}{
		"Writes":         {"/db/execute?timeout=20s", "INSERT INTO %s(name) SELECT count(*) FROM n", nil},
		"AcceptedWrites": {"/db/execute", "INSERT INTO %s(name) SELECT count(*) FROM n", []string{"Prefer", "respond-async"}},
		"Reads":          {"/db/query?level=none&timeout=20s", "SELECT count(*) FROM n, %s", nil},
		"StrongReads":    {"/db/query?level=strong&timeout=20s", "SELECT count(*) FROM n, %s", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := start(t, setup{owned: true})
			e := newEffects(t, sys)
			if _, err := e.write(t.Context(), "first"); err != nil {
				t.Fatal(err)
			}
			var crowd sync.WaitGroup
			var answered atomic.Int64
			before := sys.requestsTaken(t)
			for i := range 8 {
				crowd.Go(func() {
					a, err := sys.Try(context.Background(), http.MethodPost, sys.db(c.path), sqlBody(endless+fmt.Sprintf(c.statement, e.table)), c.head...)
					answered.Add(1)
					if err != nil || !endsWell(a.Status) {
						t.Errorf("slow request %d: got %d %.200s, %v, want a result, 503 or 504", i, a.Status, a.Body, err)
					}
				})
			}
			eventually(t, againLimit, func() error {
				if n, done := sys.requestsTaken(t)-before, answered.Load(); n < 8 && done < 8 { // a refused request is not taken
					return fmt.Errorf("%d of 8 requests are taken, %d answered", n, done)
				}
				return nil
			})
			for i := range 2 {
				crowd.Go(func() { e.writeToTheEnd(t, strconv.Itoa(i)) })
			}
			sys.Stop(t)
			crowd.Wait()
			sys.Start(t)
			e.verify(t)
		})
	}
}

// endsWell reports whether a request may get this status while the system stops.
func endsWell(status int) bool {
	return status/100 == 2 || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// writeToTheEnd writes until the system accepts no more requests.
func (e *effects) writeToTheEnd(t *testing.T, name string) {
	t.Helper()
	for i := 0; ; i++ {
		a, err := e.write(context.Background(), fmt.Sprint(name, "-", i))
		if err == nil && !endsWell(a.Status) {
			t.Errorf("write %d: got %d %.200s, want a result, 503 or 504", i, a.Status, a.Body)
		}
		if err != nil || a.Status != http.StatusOK {
			return
		}
	}
}

// requestsTaken is how many reads and writes the orchestrator has taken since its start.
func (s *system) requestsTaken(t *testing.T) int64 {
	t.Helper()
	var sum int64
	for line := range strings.Lines(s.Get(t, s.Orchestrator+"/metrics").Body) {
		if _, value, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(line, "rideshare_dispatch_requests_total{") {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
