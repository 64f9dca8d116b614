package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// rereads is how many reads are in flight, so many that each of the two slaves has some of them.
const rereads = 16

// A slave dies after it has acknowledged reads that are slow or wait for a position, and before it has answered them.
// None of these reads fails while another slave runs.
func TestSystem_SlaveKilledWithReadsInHand_NoReadFails(t *testing.T) {
	t.Parallel()
	on := shared(t)
	for name, c := range map[string]struct {
		query string // empty: a slow one
		ahead uint64 // how far the position that the reads wait for is ahead of the log
	}{
		"Waiting": {query: "SELECT count(*) FROM effects", ahead: 1},
		"Slow":    {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := startSystem(t, on, 2, "CALL_TIMEOUT=40s") // 16 slow reads on a slow machine
			sys.client.Timeout = time.Minute
			sys.exec(t, "CREATE TABLE effects(n INTEGER PRIMARY KEY)")
			before := sys.awaitWhole(t, 2)
			query := c.query
			if query == "" {
				query = sys.slowRead(t)
			}
			held := sys.held(t, before.pids("slave"))
			asked := sys.ask(t, query, sys.head(t)+c.ahead)
			victim := sys.awaitHolding(t, held)
			signal(t, victim, syscall.SIGKILL)
			if len(asked) == rereads {
				t.Fatal("the fault has not struck: all reads were answered before the kill")
			}
			sys.awaitGone(t, []int{victim})
			sys.exec(t, "INSERT INTO effects(n) VALUES(1)") // the position that they wait for
			for range rereads {
				if err := <-asked; err != nil {
					t.Error(err)
				}
			}
			sys.awaitWhole(t, 2)
		})
	}
}

// One of two slaves is killed under load, again and again: no read fails.
func TestSystem_OneOfTwoSlavesKilled_NoReadFails(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 2, patient)
	l := startLoad(t, sys)
	for range 3 {
		before := sys.awaitWhole(t, 2)
		sys.killLowest(t, "slave")
		sys.awaitGone(t, before.pids("slave")[:1])
		l.awaitProgress(t)
	}
	l.await(t, 2)
	if reads := l.readsFailed.Load(); reads > 0 {
		t.Errorf("%d reads failed, want none", reads)
	}
}

// slowReadTakes is how long a slow read takes at least on an idle system: much longer than a slave waits before it acknowledges a read that
// it has not answered.
const slowReadTakes = 500 * time.Millisecond

// slowRead returns a read that takes long, and that neither the cache nor another read in flight can answer.
func (s *system) slowRead(t *testing.T) string {
	t.Helper()
	for limit := 150_000; ; limit *= 2 {
		query := fmt.Sprintf("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT %d) SELECT count(*), random() FROM c", limit)
		began := time.Now()
		s.rows(t, query)
		if time.Since(began) >= slowReadTakes {
			return query
		}
	}
}

// ask sends reads of a position, all at once; what is wrong with each goes to the channel.
func (s *system) ask(t *testing.T, query string, position uint64) <-chan error {
	t.Helper()
	asked := make(chan error, rereads)
	for range rereads {
		go func() { // ends with the answer, at the latest at the client's limit
			a, err := s.try(context.Background(), http.MethodPost, "/db/query", []string{query}, "X-Min-Seq", strconv.FormatUint(position, 10))
			if err == nil && a.status != http.StatusOK {
				err = fmt.Errorf("a read: got %d %.200s, want 200", a.status, a.body)
			}
			asked <- err
		}()
	}
	return asked
}

// head returns the position of the newest write.
func (s *system) head(t *testing.T) uint64 {
	t.Helper()
	a, err := s.try(t.Context(), http.MethodPost, "/db/query", []string{"SELECT 1"})
	if err != nil {
		t.Fatal(err)
	}
	seq, err := strconv.ParseUint(a.header.Get("X-Seq"), 10, 64)
	if err != nil {
		t.Fatalf("X-Seq of %d %v: %v", a.status, a.header, err)
	}
	return seq
}

// held returns how many reads each of the workers has acknowledged so far before it had their answers.
func (s *system) held(t *testing.T, pids []int) map[int]float64 {
	t.Helper()
	held := map[int]float64{}
	for _, pid := range pids {
		n, err := s.event(pid, "read_messages_lingered")
		if err != nil {
			t.Fatal(err)
		}
		held[pid] = n
	}
	return held
}

// awaitHolding waits until one of the workers has acknowledged more reads that it has not answered, and returns it.
func (s *system) awaitHolding(t *testing.T, before map[int]float64) (holder int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		for pid, n := range before {
			lingered, err := s.event(pid, "read_messages_lingered")
			if err != nil {
				return err
			}
			if lingered > n {
				holder = pid
				return nil
			}
		}
		return errors.New("no slave has acknowledged a read early")
	})
	return holder
}

// event returns one of the counters of a worker's metrics.
func (s *system) event(pid int, name string) (float64, error) {
	base, err := settingOf(pid, "--control-url")
	if err != nil {
		return 0, err
	}
	return s.metric(base, "rideshare_worker_events_total", `event="`+name+`"`)
}

// metric returns a metric of the part at that address: the series with that label, or the one without labels if label
// is empty.
func (s *system) metric(base, name, label string) (float64, error) {
	req, err := http.NewRequest(http.MethodGet, base+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	a, err := s.send(req)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(a.body)) {
		labelled := strings.HasPrefix(line, name+"{") && label != "" && strings.Contains(line, label)
		if labelled || label == "" && strings.HasPrefix(line, name+" ") {
			return strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s with %s", base, name, label)
}
