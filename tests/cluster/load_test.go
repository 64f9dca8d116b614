package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wait"
	"rideshare/tests/history"
)

const (
	// retryAfter is the first pause before a write is repeated at another host. It doubles up to longestRetry, for the sake of the cores.
	retryAfter, longestRetry = 100 * time.Millisecond, 2 * time.Second
	// patience is how long a write is repeated: longer than any loss.
	patience = 2 * time.Minute
	// queuedEvery is the share of writes that are queued: their answer says only that they will be done.
	queuedEvery = 8
)

// load writes and reads at a steady rate, however long the answers take, until it is stopped. Each request goes to one of the
// hosts, and to the next one if that does not answer.
type load struct {
	c      *cluster
	ledger *history.Ledger
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	acked  []time.Time
	reads  int
	failed []failedRead
	queued map[string]bool
	wrong  []error
	stood  time.Duration // the longest time without a tick since the last call of stoodStill
}

// failedRead is a read that no host answered.
type failedRead struct {
	sent time.Time
	why  string
}

// startLoad makes the table and starts the load.
func startLoad(t *testing.T, c *cluster) *load {
	t.Helper()
	rate := number(t, "CLUSTER_RATE", 20)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &load{c: c, ledger: history.NewLedger(), cancel: cancel, queued: map[string]bool{}}
	c.exec(t, "CREATE TABLE effects(n INTEGER PRIMARY KEY, name TEXT NOT NULL)", "CREATE INDEX effects_name ON effects(name)")
	for _, send := range []func(context.Context, int){l.write, l.read} {
		l.all.Go(func() { l.tick(ctx, time.Second/time.Duration(rate), send) })
	}
	t.Cleanup(l.stop)
	return l
}

// tick calls send in a goroutine of its own at each tick.
func (l *load) tick(ctx context.Context, every time.Duration, send func(context.Context, int)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			l.mu.Lock()
			l.stood = max(l.stood, now.Sub(last)-every)
			l.mu.Unlock()
			last = now
			l.all.Go(func() { send(context.WithoutCancel(ctx), i) })
		}
	}
}

// stop ends the load once all its requests are answered, or given up.
func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}

// answer is a host's answer to a request.
type answer struct {
	status int
	body   []byte
}

// post sends a request to one host: a write if it has a key, or a read.
func (c *cluster) post(ctx context.Context, h *host, path string, body any, key string) (answer, error) {
	limit := readLimit
	if key != "" {
		limit = writeLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.orchestrator()+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&timeout="+(limit-early).String(), "&")
	req.Header.Set("Authorization", c.authorization)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	text, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	return answer{status: resp.StatusCode, body: text}, err
}

// exec runs statements at any host, which must succeed.
func (c *cluster) exec(t *testing.T, statements ...string) {
	t.Helper()
	key := fmt.Sprintf("exec-%d", rand.Uint64())
	testenv.Eventually(t, backLimit, func() error {
		a, err := c.post(t.Context(), c.hosts[rand.IntN(len(c.hosts))], "/db/execute?transaction", statements, key)
		if err == nil && (a.status != http.StatusOK || bytes.Contains(a.body, []byte(`"error"`))) {
			err = fmt.Errorf("got %d %s, want 200", a.status, a.body)
		}
		return err
	})
}

// write sends a write, and repeats it with its key at the next host until it is acknowledged.
func (l *load) write(ctx context.Context, i int) {
	name := fmt.Sprintf("w%d", i)
	path, queued := "/db/execute?transaction", i%queuedEvery == 0
	if queued {
		path = "/db/execute?queue"
	}
	begun, maybe := time.Now(), false
	pause := wait.Backoff{First: retryAfter, Cap: longestRetry, Jitter: 0.5}
	for try := i; time.Since(begun) < patience; try++ {
		a, err := l.c.post(ctx, l.c.hosts[try%len(l.c.hosts)], path, []any{[]string{"INSERT INTO effects(name) VALUES(?)", name}}, name)
		switch {
		case err == nil && a.status == http.StatusOK && !bytes.Contains(a.body, []byte(`"error"`)):
			l.ack(name, queued)
			return
		case err != nil, a.status == http.StatusGatewayTimeout, a.status == http.StatusConflict: // conflict: an earlier try still runs
			maybe = true
		case a.status != http.StatusServiceUnavailable:
			l.fail(fmt.Errorf("write %s: got %d %.200s, want 200, 409, 503 or 504", name, a.status, a.body))
		}
		pause.Wait(ctx)
	}
	if maybe {
		l.ledger.Unknown(name)
	} else {
		l.ledger.Refused(name)
	}
}

func (l *load) ack(name string, queued bool) {
	now := time.Now()
	l.ledger.Acked(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if queued {
		l.queued[name] = true
		return
	}
	l.acked = append(l.acked, now)
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, err)
}

// read reads what no cache has, at one host and then at the others. It fails if no host answers.
func (l *load) read(ctx context.Context, i int) {
	sent := time.Now()
	var why []string
	for try := range l.c.hosts {
		h := l.c.hosts[(i+try)%len(l.c.hosts)]
		a, err := l.c.post(ctx, h, "/db/query", []any{[]string{"SELECT count(*) FROM effects WHERE name=?", fmt.Sprintf("r%d", i)}}, "")
		if err == nil && a.status == http.StatusOK {
			l.mu.Lock()
			l.reads++
			l.mu.Unlock()
			return
		}
		if err == nil && a.status != http.StatusServiceUnavailable && a.status != http.StatusGatewayTimeout {
			l.fail(fmt.Errorf("read at %s: got %d %.200s, want 200, 503 or 504", h.name, a.status, a.body))
		}
		if err == nil {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		why = append(why, fmt.Sprintf("%s after %s: %v", h.name, seconds(time.Since(sent)), err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, failedRead{sent: sent, why: strings.Join(why, "; ")})
}

// awaitBack waits until writes and reads that are sent from now on are answered.
func (l *load) awaitBack(t *testing.T) {
	t.Helper()
	const enough = 20
	count := func() (int, int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked), l.reads
	}
	writes, reads := count()
	testenv.Eventually(t, backLimit, func() error {
		if w, r := count(); w < writes+enough || r < reads+enough {
			return fmt.Errorf("%d writes and %d reads are answered since the loss, want %d each", w-writes, r-reads, enough)
		}
		return nil
	})
}

// ranUntil returns a check that a write was acknowledged after a time.
func (l *load) ranUntil(until time.Time) func() error {
	return func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.acked) == 0 || l.acked[len(l.acked)-1].Before(until) {
			return errors.New("no write is acknowledged any more")
		}
		return nil
	}
}

// longest returns the longest time between two acknowledged writes that overlaps an interval.
func (l *load) longest(from, to time.Time) time.Duration {
	l.mu.Lock()
	times := slices.Clone(l.acked)
	l.mu.Unlock()
	slices.SortFunc(times, time.Time.Compare)
	var longest time.Duration
	for i := 1; i < len(times); i++ {
		if times[i].After(from) && times[i-1].Before(to) {
			longest = max(longest, times[i].Sub(times[i-1]))
		}
	}
	return longest
}

// readsFailed returns how many reads failed that were sent in an interval, and the time from the first to the last.
func (l *load) readsFailed(from, to time.Time) (count int, within time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first, last time.Time
	for _, f := range l.failed {
		if f.sent.Before(from) || f.sent.After(to) {
			continue
		}
		count++
		if first.IsZero() || f.sent.Before(first) {
			first = f.sent
		}
		if f.sent.After(last) {
			last = f.sent
		}
	}
	return count, last.Sub(first)
}

// keepFailed keeps why reads failed.
func (l *load) keepFailed(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := testenv.Artefact("cluster-reads-*.log")
	if err != nil {
		t.Error(err)
		return
	}
	for _, one := range l.failed {
		_, err = fmt.Fprintf(f, "%s %s\n", one.sent.Format("15:04:05.000"), one.why)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
	t.Logf("why %d reads failed: %s", len(l.failed), f.Name())
}

// verify compares what each host has with what was acknowledged, also the queued writes.
func (l *load) verify(t *testing.T) {
	t.Helper()
	for _, err := range l.wrong[:min(len(l.wrong), 5)] {
		t.Error(err)
	}
	acked, refused, unknown := l.ledger.Counts()
	t.Logf("%d writes acknowledged, %d of them queued; %d refused, %d unknown; %d reads answered, %d failed", acked, len(l.queued), refused, unknown, l.reads, len(l.failed))
	if len(l.queued) == 0 || len(l.acked) == 0 {
		t.Error("no write was acknowledged, or none was queued")
	}
	for _, h := range l.c.hosts {
		testenv.Eventually(t, backLimit, func() error { // a queued write may still wait
			a, err := l.c.post(t.Context(), h, "/db/query", []string{"SELECT name FROM effects"}, "")
			if err != nil {
				return err
			}
			names, err := column(a)
			if err != nil {
				return err
			}
			found := map[string]int{}
			for _, name := range names {
				found[name]++
			}
			if err = l.ledger.Compare(found, len(names)); err != nil {
				err = fmt.Errorf("%s: %w", h.name, err)
			}
			return err
		})
	}
}

// column returns the first column of the one result in an answer.
func column(a answer) ([]string, error) {
	var got struct {
		Results []struct {
			Error  string
			Values [][]string
		}
	}
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusOK || len(got.Results) != 1 || got.Results[0].Error != "" {
		return nil, fmt.Errorf("got %d %.200s, want one result: %w", a.status, a.body, err)
	}
	values := make([]string, len(got.Results[0].Values))
	for i, row := range got.Results[0].Values {
		values[i] = row[0]
	}
	return values, nil
}
