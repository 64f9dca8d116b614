package fault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/feedtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/client"
)

const (
	// resumesEnv names the variable for how often each consumer of the change feed dies and resumes.
	resumesEnv = "RIDESHARE_CONSUMER_RESUMES"
	resumes    = 250
	// masterDeaths is how many masters die during the test.
	masterDeaths = 3
)

// consumer reads the change feed of any orchestrator, and dies after a few events, sometimes in the middle of an event.
type consumer struct {
	feedtest.Consumer

	from    []orchestrator
	client  *http.Client
	rnd     *rand.Rand
	resumed atomic.Int64
}

// once resumes, takes at most that many events, and dies. It returns an error only if the feed broke a promise.
func (c *consumer) once(ctx context.Context, events int) error {
	url := c.from[c.rnd.IntN(len(c.from))].orchestrator + "/api/v1/changes?after=0"
	if c.Tables != nil {
		url += "&tables=" + strings.Join(c.Tables, ",")
	}
	s, err := feedtest.Get(ctx, c.client, url, "Last-Event-ID", c.Last)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer s.Close()
	if s.Status == http.StatusServiceUnavailable {
		return pause(ctx, retryAfter)
	}
	if s.Status != http.StatusOK {
		return fmt.Errorf("changes after %s: got %d %s", c.Last, s.Status, s.Body)
	}
	c.resumed.Add(1)
	for range events {
		e, err := s.Next()
		if err != nil { // the stream ended, in the middle of an event or not
			return nil
		}
		if err = c.Take(e); err != nil {
			return err
		}
	}
	return nil
}

// run dies and resumes until ctx ends.
func (c *consumer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.once(ctx, c.rnd.IntN(3)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Consumers of the change feed, with and without tables, are killed and resumed over two orchestrators while masters die
// under a load: each consumer has every change exactly once by seq, equal to the log.
func TestChanges_ConsumersKilledWhileMastersDie_EveryChangeOnce(t *testing.T) {
	t.Parallel()
	want := int64(resumes)
	if given := os.Getenv(resumesEnv); given != "" {
		var err error
		if want, err = strconv.ParseInt(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s := startSplit(t, shared(t), 2)
	from := []orchestrator{s.startOrchestrator(t), s.startOrchestrator(t)}
	l := startLoad(t, from[0].system)
	l.sys.exec(t, "CREATE TABLE beside(n)")
	consumers := make([]*consumer, 2)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range consumers {
		c := &consumer{from: from, client: &http.Client{}, rnd: rand.New(rand.NewPCG(uint64(i), 21))}
		if i == 1 {
			c.Tables = []string{"effects", "beside"}
		}
		consumers[i] = c
		running.Go(func() {
			if err := c.run(ctx); err != nil {
				t.Errorf("consumer of %v: %v", c.Tables, err)
				stop()
			}
		})
	}
	for death := range int64(masterDeaths) {
		awaitResumed(ctx, t, consumers, want*(death+1)/(masterDeaths+1))
		before := from[1].awaitWhole(t, 2)
		signal(t, before.pids("master")[0], syscall.SIGKILL)
		from[1].awaitSuccessor(t, before)
		l.awaitProgress(t)
		l.sys.exec(t, fmt.Sprintf("INSERT INTO beside VALUES(%d)", death))
	}
	awaitResumed(ctx, t, consumers, want)
	l.endWell(t)
	stop()
	running.Wait()
	checkConsumers(t, s, l, consumers)
}

// awaitResumed waits until each consumer has resumed that many times.
func awaitResumed(ctx context.Context, t *testing.T, consumers []*consumer, want int64) {
	t.Helper()
	testenv.Eventually(t, 5*time.Minute, func() error {
		if ctx.Err() != nil {
			t.Fatal("a consumer has ended")
		}
		for _, c := range consumers {
			if got := c.resumed.Load(); got < want {
				return fmt.Errorf("consumer of %v: resumed %d times, want %d", c.Tables, got, want)
			}
		}
		return nil
	})
}

// checkConsumers makes a last commit, lets each consumer read up to it, and compares what they have with the log.
func checkConsumers(t *testing.T, s *split, l *load, consumers []*consumer) {
	t.Helper()
	l.sys.exec(t, "INSERT INTO beside VALUES('last')")
	store, err := client.New(client.Config{URL: s.persdbURL})
	if err != nil {
		t.Fatal(err)
	}
	head, err := store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range consumers {
		testenv.Eventually(t, healLimit, func() error {
			if failed := c.once(t.Context(), int(min(head.Seq-min(c.Seen, head.Seq), 100))); failed != nil {
				return failed
			}
			if c.Seen < head.Seq {
				return fmt.Errorf("got up to %d, want %d", c.Seen, head.Seq)
			}
			return nil
		})
		if err = c.Check(t.Context(), store, head.Seq); err != nil {
			t.Errorf("consumer of %v: %v", c.Tables, err)
		}
		t.Logf("consumer of %v: resumed %d times, %d commits", c.Tables, c.resumed.Load(), head.Seq)
	}
}
