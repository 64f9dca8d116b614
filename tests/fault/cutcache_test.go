package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// headLife is how long the read cache answers without news from persdb.
const headLife = 2 * time.Second

// An orchestrator that is cut off from persdb and the broker cannot learn what other orchestrators acknowledge. Its cache
// then answers only reads of level none, however old the answer is; no other read gets an old answer. When the networks
// are back, the orchestrator serves as before.
func TestOrchestrators_CutOff_CacheIsNotStale(t *testing.T) {
	t.Parallel()
	s := startSplit(t, shared(t), 1)
	first := s.startOrchestrator(t)
	first.awaitLeader(t)
	apart, seenApart := *s, *s.system
	apart.system = &seenApart
	broker, rabbit := behind(t, s.rabbit)
	persdb, store := behind(t, &testenv.Service{URL: s.persdbURL})
	seenApart.rabbit, apart.persdbURL = rabbit, store.URL
	second := apart.startOrchestrator(t)

	first.exec(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES(1, 0)")
	testenv.Eventually(t, healLimit, func() error { return second.cached(t, "weak", "0") })
	broker.Cut()
	persdb.Cut()
	first.exec(t, "UPDATE t SET n = 1")
	acknowledged := time.Now()
	refused := 0
	testenv.Eventually(t, healLimit, func() error {
		sent := time.Now()
		status, n, _ := second.readN(t, "weak")
		if status == http.StatusOK && n != "1" && sent.Sub(acknowledged) > headLife {
			t.Fatalf("%v after the write: got %s, want 1 or no answer", sent.Sub(acknowledged), n)
		}
		if status != http.StatusOK {
			refused++
		}
		if refused < 3 {
			return errors.New("reads are answered although the orchestrator is cut off")
		}
		return nil
	})
	testenv.Eventually(t, healLimit, func() error { return second.cached(t, "none", "0") })
	persdb.Heal()
	broker.Heal()
	testenv.Eventually(t, healLimit, func() error { return second.cached(t, "weak", "1") })
}

// readN reads the only value of the table t. n is empty if there was no answer.
func (o orchestrator) readN(t *testing.T, level string) (status int, n, from string) {
	t.Helper()
	a, err := o.try(t.Context(), http.MethodPost, "/db/query?timeout=1s&level="+level, []string{"SELECT n FROM t WHERE id = 1"})
	if err != nil {
		t.Fatal(err)
	}
	var got results
	if err = json.Unmarshal(a.body, &got); err == nil && len(got.Results) == 1 && len(got.Results[0].Values) == 1 {
		n = string(got.Results[0].Values[0][0])
	}
	return a.status, n, a.header.Get("X-Cache")
}

// cached returns nil if the cache answers with want.
func (o orchestrator) cached(t *testing.T, level, want string) error {
	t.Helper()
	if status, n, from := o.readN(t, level); status != http.StatusOK || n != want || from != "HIT" {
		return fmt.Errorf("got %d %q %s, want a hit with %s", status, n, from, want)
	}
	return nil
}
