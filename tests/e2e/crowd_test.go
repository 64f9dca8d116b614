package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

// promptly bounds point reads and writes of other clients while one client sends many requests that last 30 s. On one
// busy core the longest took a fifth of a second.
const promptly = 20 * time.Second

// However many endless reads, reads that only the master serves, and reads that wait for a position that is never
// reached one client sends: point reads and writes of other clients are answered.
func TestCrowd_ReadsThatNeverEnd_OthersAreAnswered(t *testing.T) {
	endless := "q=" + url.QueryEscape("WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x) SELECT count(*) FROM x") + "&timeout=30s"
	for name, c := range map[string]struct {
		query string
		many  int
		apart time.Duration
		head  []string
	}{
		"None":   {"level=none&" + endless, 40, 20 * time.Millisecond, nil},
		"Strong": {"level=strong&" + endless, 40, 20 * time.Millisecond, nil},
		"FarPosition": {
			"level=none&timeout=30s&q=" + url.QueryEscape("SELECT 1"), 300, 5 * time.Millisecond, []string{"X-Min-Seq", "999999999999"},
		},
		"NextPosition": {
			"level=none&timeout=30s&q=" + url.QueryEscape("SELECT 1"), 300, 5 * time.Millisecond, []string{"X-Min-Seq", "NEXT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := start(t, setup{flags: []string{"--slaves", "1"}, env: []string{"SCALE_MAX=1", "CALL_TIMEOUT=20s"}})
			table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
			ctx, cancel := context.WithCancel(t.Context())
			var crowd sync.WaitGroup
			defer crowd.Wait()
			defer cancel()
			head := sys.Post(t, sys.db("/db/query"), `["SELECT 1"]`).seq(t)
			for i := range c.head {
				if c.head[i] == "NEXT" {
					c.head[i] = fmt.Sprint(head + 5) // the writes below reach it in the end
				}
			}
			for range c.many {
				crowd.Go(func() { _, _ = sys.Try(ctx, http.MethodGet, sys.db("/db/query?"+c.query), "", c.head...) }) // cut off at the end
				time.Sleep(c.apart)
			}
			for i := range 4 {
				for what, x := range map[string]exchange{
					"write":  {url: sys.db("/db/execute"), body: fmt.Sprintf(`["INSERT INTO %s VALUES(%d)"]`, table, i)},
					"read":   {url: sys.db("/db/query?level=none"), body: fmt.Sprintf(`["SELECT count(*) FROM %s"]`, table)},
					"strong": {url: sys.db("/db/query?level=strong"), body: fmt.Sprintf(`["SELECT max(id) FROM %s"]`, table)},
				} {
					began := time.Now()
					a := sys.Call(t, http.MethodPost, x.url, x.body)
					if took := time.Since(began); a.Status != http.StatusOK || took > promptly {
						t.Errorf("%s %d: got %d %s after %v", what, i, a.Status, a.Body, took)
					} else {
						t.Logf("%s %d: %v", what, i, took)
					}
				}
			}
		})
	}
}

// Some writers keep the master busy with endless statements. A write of another client, with the default deadline, does
// not wait at the broker behind theirs.
func TestCrowd_WritesThatNeverEnd_OthersAreAnswered(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "1"}, env: []string{"SCALE_MAX=1", "CALL_TIMEOUT=10s"}})
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	var crowd sync.WaitGroup
	defer crowd.Wait() // each ends with its deadline, so that nothing is left to do at the stop
	stop := make(chan struct{})
	defer close(stop)
	endless := fmt.Sprintf(`["INSERT INTO %s WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM x) SELECT max(i) FROM x"]`, table)
	for range 8 {
		crowd.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = sys.Try(t.Context(), http.MethodPost, sys.db("/db/execute?timeout=8s"), endless) // always refused
				}
			}
		})
	}
	for i := range 8 {
		began := time.Now()
		a := sys.Post(t, sys.db("/db/execute"), fmt.Sprintf(`["INSERT INTO %s VALUES(%d)"]`, table, i))
		if a.Status != http.StatusOK {
			t.Errorf("write %d: got %d %s after %v", i, a.Status, a.Body, time.Since(began))
		} else {
			t.Logf("write %d: %v", i, time.Since(began))
		}
	}
}
