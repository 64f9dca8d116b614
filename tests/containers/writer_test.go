package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// pause is between two writes: the machine has other things to do.
const pause = 50 * time.Millisecond

// writer is a client that creates users all the time and remembers which were acknowledged.
type writer struct {
	s    *stack
	stop func()

	mu       sync.Mutex // guards the fields below
	acked    []string
	statuses map[int]int // how many answers of each; 0 stands for none
}

func (s *stack) startWriter(t *testing.T) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{s: s, statuses: map[int]int{}}
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
		name := fmt.Sprintf("writer-%06d", i)
		// Not ctx: what is in hand is finished.
		status, _, err := w.s.try(context.WithoutCancel(ctx), http.MethodPut, w.s.gateway+"/api/v1/users",
			fmt.Sprintf(`{"username":%q,"password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}`, name))
		w.note(name, status, err)
	}
}

func (w *writer) note(name string, status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		status = 0
	}
	w.statuses[status]++
	if status == http.StatusCreated {
		w.acked = append(w.acked, name)
	}
}

// verify checks that every acknowledged user is there, once, and that every answer was one that
// an outage may have. Without an answer is who asks while the gateway itself is away.
func (w *writer) verify(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("answers to writes during all that: %v (0: none)", w.statuses)
	for status, n := range w.statuses {
		if !slices.Contains([]int{0, http.StatusCreated, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status) {
			t.Errorf("%d answers were %d, want only 201, 503 and 504", n, status)
		}
	}
	if len(w.acked) == 0 {
		t.Fatal("no write was acknowledged")
	}
	var names []string
	if err := json.Unmarshal([]byte(w.s.call(t, http.MethodGet, w.s.gateway+"/api/v1/users", "")), &names); err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	for _, name := range names {
		there[name]++
	}
	for _, name := range w.acked {
		if there[name] != 1 {
			t.Errorf("acknowledged user %s is there %d times, want once", name, there[name])
		}
	}
}
