package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// pause is the time between two rounds of writes, which leaves the machine time for other work.
const pause = 50 * time.Millisecond

// writer is a client that writes all the time and remembers what was acknowledged. It creates users through the gateway,
// each with one request, and effects at the orchestrator, each sent under its key until it has two final answers. An effect
// adds a row and increments a counter, in one transaction: only the key keeps a repeated effect from being done twice.
type writer struct {
	s    *stack
	stop func()

	mu       sync.Mutex             // guards the fields below
	away     string                 // the service that gives no answers at the moment
	users    []string               // acknowledged
	effects  map[string]bool        // acknowledged
	final    int                    // final answers to effects: two of each but the last
	statuses map[string]map[int]int // by service: how many answers of each status; 0 stands for none
	wrong    []string               // answers that no outage may have, and missing ones of services that were there
}

func (s *stack) startWriter(t *testing.T) *writer {
	t.Helper()
	s.call(t, http.MethodPost, s.orchestrator+"/db/execute", `["CREATE TABLE effects(n INTEGER PRIMARY KEY, name TEXT NOT NULL)",
		"CREATE TABLE counter(one INTEGER PRIMARY KEY, n INTEGER NOT NULL)", "INSERT INTO counter VALUES(1, 0)"]`)
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{s: s, effects: map[string]bool{}, statuses: map[string]map[int]int{"gateway": {}, "orchestrator": {}}}
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *writer) run(ctx context.Context) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Not ctx: a pending request is completed.
		w.putUser(context.WithoutCancel(ctx), fmt.Sprintf("writer-%06d", i))
		w.addEffect(context.WithoutCancel(ctx))
	}
}

func (w *writer) putUser(ctx context.Context, name string) {
	status, _ := w.send(ctx, "gateway", fmt.Sprintf(`{"username":%q,"password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}`, name))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch status {
	case http.StatusCreated:
		w.users = append(w.users, name)
	case 0, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		w.wrong = append(w.wrong, fmt.Sprintf("user %s: %d", name, status))
	}
}

func (w *writer) addEffect(ctx context.Context) {
	name := fmt.Sprintf("effect-%06d", w.final/2) // nobody else writes w.final
	status, text := w.send(ctx, "orchestrator",
		fmt.Sprintf(`[["INSERT INTO effects(name) VALUES(?)",%q],"UPDATE counter SET n = n + 1 WHERE one = 1"]`, name), "Idempotency-Key", name)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch status {
	case 0, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return
	case http.StatusOK:
		w.effects[name] = true
	}
	w.final++
	if status != http.StatusOK || strings.Contains(text, `"error"`) {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %d %s", name, status, text))
	}
}

// send counts the answer of a service. Status 0 means that there was no answer, which is allowed only while the service is
// away.
func (w *writer) send(ctx context.Context, service, body string, headers ...string) (int, string) {
	method, url := http.MethodPut, w.s.gateway+"/api/v1/users"
	if service == "orchestrator" {
		method, url = http.MethodPost, w.s.orchestrator+"/db/execute?transaction"
	}
	before := w.isAway(service)
	status, text, err := w.s.try(ctx, method, url, body, headers...)
	after := w.isAway(service)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		status = 0
		if !before && !after {
			w.wrong = append(w.wrong, err.Error())
		}
	}
	w.statuses[service][status]++
	return status, text
}

func (w *writer) isAway(service string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away == service
}

// expect allows a service to give no answer from now on; "" allows it for no service.
func (w *writer) expect(away string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// refused returns how many writes were not acknowledged so far, without those that missed their deadline (504): a busy machine alone can
// cause that.
func (w *writer) refused() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, statuses := range w.statuses {
		for status, count := range statuses {
			if status != http.StatusOK && status != http.StatusCreated && status != http.StatusGatewayTimeout {
				n += count
			}
		}
	}
	return n
}

// verify checks that everything that was acknowledged is there, that nothing is there twice, and that every answer was one
// that an outage may have.
func (w *writer) verify(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("answers to writes during all that: %v (0: none)", w.statuses)
	if len(w.wrong) > 0 {
		t.Errorf("%d answers were wrong, the first: %s", len(w.wrong), strings.Join(w.wrong[:min(len(w.wrong), 5)], "; "))
	}
	var users []string
	if err := json.Unmarshal([]byte(w.s.call(t, http.MethodGet, w.s.gateway+"/api/v1/users", "")), &users); err != nil {
		t.Fatal(err)
	}
	if len(w.users) == 0 {
		t.Error("no user was acknowledged")
	}
	for _, name := range w.users {
		if !slices.Contains(users, name) {
			t.Errorf("user %s was acknowledged and is lost", name)
		}
	}
	w.verifyEffects(t)
}

func (w *writer) verifyEffects(t *testing.T) {
	t.Helper()
	var got struct {
		Results []struct {
			Values [][]any
		}
	}
	// One statement sees one state: a write whose client no longer waits may still be applied.
	text := w.s.call(t, http.MethodPost, w.s.orchestrator+"/db/query", `["SELECT name, (SELECT n FROM counter) FROM effects"]`)
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Results) != 1 || len(got.Results[0].Values) == 0 {
		t.Fatalf("effects: got %.500s (%v), want rows", text, err)
	}
	rows := got.Results[0].Values
	if counter := rows[0][1]; counter != float64(len(rows)) {
		t.Errorf("the counter: got %v, want %d, as many as there are rows", counter, len(rows))
	}
	there := map[string]bool{}
	for _, row := range rows {
		there[row[0].(string)] = true
	}
	if doubled := len(rows) - len(there); doubled != 0 {
		t.Errorf("%d effects are there more than once", doubled)
	}
	for name := range w.effects {
		if !there[name] {
			t.Errorf("effect %s was acknowledged and is lost", name)
		}
	}
	if sent := w.final/2 + 1; len(there) > sent {
		t.Errorf("%d effects are there, more than the %d that were sent", len(there), sent)
	}
}
