package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// effects is a table in which each write leaves one row with its name for each time that it was applied.
type effects struct {
	sys   *system
	table string

	acked atomic.Int64
	late  atomic.Int64    // answers that came too late or not at all
	loads atomic.Int64    // numbers the loads, for names
	mu    sync.Mutex      // guards known
	known map[string]bool // by name: true if acknowledged, false if only sent
}

func newEffects(t *testing.T, sys *system) *effects {
	t.Helper()
	return &effects{
		sys:   sys,
		table: sys.NewTable(t, "n INTEGER PRIMARY KEY, name TEXT NOT NULL"),
		known: map[string]bool{},
	}
}

// write sends one write and notes whether it was acknowledged. An error means
// that there was no answer.
func (e *effects) write(ctx context.Context, name string, headers ...string) (answer, error) {
	e.note(name, false)
	defer e.clock(time.Now())
	a, err := e.sys.Try(ctx, "POST", e.sys.db("/db/execute"), sqlBody("INSERT INTO "+e.table+"(name) VALUES(?)", name), headers...)
	if err == nil && a.Status == http.StatusOK {
		e.note(name, true)
	}
	return a, err
}

// clock notes an answer to a call that began at a time.
func (e *effects) clock(began time.Time) {
	if time.Since(began) > answerLimit {
		e.late.Add(1)
	}
}

func (e *effects) note(name string, acked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if acked && !e.known[name] {
		e.acked.Add(1)
	}
	e.known[name] = e.known[name] || acked
}

// verify checks that every acknowledged write had its effect once, every other
// one at most once, that nothing else is there, and that every answer came in time.
func (e *effects) verify(t *testing.T) {
	t.Helper()
	found := map[string]int{}
	for _, row := range e.sys.Query(t, "SELECT name FROM "+e.table) {
		found[string(row[0])]++
	}
	if n := e.late.Load(); n > 0 {
		t.Errorf("%d answers came later than %v after their calls", n, answerLimit)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var lost, twice []string
	for name, acked := range e.known {
		n := found[toJSON(name)]
		delete(found, toJSON(name))
		if acked && n == 0 {
			lost = append(lost, name)
		}
		if n > 1 {
			twice = append(twice, name)
		}
	}
	if len(lost) > 0 || len(twice) > 0 || len(found) > 0 {
		t.Errorf("%d acknowledged writes are lost, %d have more than one effect, %d were never sent: %.300v, %.300v, %.300v", len(lost), len(twice), len(found), lost, twice, found)
	}
	t.Logf("%d writes, %d acknowledged", len(e.known), e.acked.Load())
}

// awaitAcked waits until that many writes were acknowledged. Tests that cause faults under load use it as their clock.
func (e *effects) awaitAcked(t *testing.T, n int64) {
	t.Helper()
	eventually(t, 2*againLimit, func() error {
		if got := e.acked.Load(); got < n {
			return fmt.Errorf("%d writes acknowledged, want %d", got, n)
		}
		return nil
	})
}

// load runs writers until stop is called, which waits for them. Each write has its own name. Refused and lost calls are
// not repeated.
func (e *effects) load(writers int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	round := e.loads.Add(1)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				a, err := e.write(ctx, fmt.Sprintf("load%d-w%d-%d", round, w, i))
				if err == nil && a.Status == http.StatusOK {
					continue
				}
				select { // Without a pause, immediate refusals would cause an endless loop of requests.
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// newRandom returns a source of random choices, and logs its seed.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// crashSome kills workers, mostly the master, each after up to gap more acknowledged writes, perhaps before the last
// victim is replaced.
func (e *effects) crashSome(t *testing.T, times int, gap int64) {
	t.Helper()
	random := newRandom(t)
	for i := range times {
		e.awaitAcked(t, e.acked.Load()+random.Int64N(gap))
		role := []string{"master", "master", "slave"}[random.IntN(3)]
		a := e.sys.Post(t, e.sys.db("/api/v1/crash/"+role), "")
		if a.Status != http.StatusOK && a.Status != http.StatusBadRequest {
			t.Errorf("crash %d, of the %s: got %d %s, want 200 or 400", i, role, a.Status, a.Body)
		}
		t.Logf("after %d acknowledged writes: crash/%s answered %d %s", e.acked.Load(), role, a.Status, a.Body)
	}
}

// read runs readers until stop is called. stop returns the errors that they found: each answered read must see at least
// what was acknowledged before it began.
func (e *effects) read(readers int) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		result <- together(readers, func(int) error {
			for ctx.Err() == nil {
				if err := e.readOnce(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return func() error {
		cancel()
		return <-result
	}
}

func (e *effects) readOnce(ctx context.Context) error {
	acked := e.acked.Load()
	defer e.clock(time.Now())
	a, err := e.sys.Try(ctx, "POST", e.sys.db("/db/query"), sqlBody("SELECT count(*) FROM "+e.table))
	if ctx.Err() != nil {
		return nil // The readers were stopped: this error does not count.
	}
	if err != nil {
		return err
	}
	switch a.Status {
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("read: got %d %.200s, want 200, 503 or 504", a.Status, a.Body)
	}
	var got struct {
		Results []struct{ Values [][]int64 }
	}
	if err = json.Unmarshal([]byte(a.Body), &got); err != nil || len(got.Results) != 1 || len(got.Results[0].Values) != 1 {
		return fmt.Errorf("read: got %.200s, want one number: %w", a.Body, err)
	}
	if n := got.Results[0].Values[0][0]; n < acked {
		return fmt.Errorf("a read saw %d rows when %d writes had been acknowledged before it began", n, acked)
	}
	return nil
}
