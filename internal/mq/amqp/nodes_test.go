package amqp //nolint:testpackage // the order of nodes is not exported

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/mq"
)

// Every part derives the same names, whatever the order of its list, and a single host has none.
func TestParseNodes_Names(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"amqp://u:p@h1/v":                                 {""},
		"amqp://u:p@h1:7000/v":                            {""},
		"amqp://u:p@h1:5672,h2,H3:5672/v":                 {".h1", ".h2", ".h3"},
		"amqp://u:p@h3,h1,h2/v":                           {".h3", ".h1", ".h2"},
		"amqps://u:p@h1:5671,h2:5672,h3/v?cacertfile=/ca": {".h1", ".h2:5672", ".h3"},
		"amqp://u:p@h1:5672,h1:5673,h2/v":                 {".h1:5672", ".h1:5673", ".h2"},
		"amqp://u:p@[::1]:5672,[::2]:5673/v":              {".::1", ".[::2]:5673"},
	} {
		nodes, err := parseNodes(list)
		if err != nil {
			t.Errorf("%s: got %v, want nil", list, err)
		}
		var got []string
		for _, n := range nodes {
			got = append(got, n.suffix)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", list, diff)
		}
	}
	nodes, err := parseNodes("amqp://u:p%40@h1,h2:7/v?heartbeat=5")
	if err != nil || nodes[1].url != "amqp://u:p%40@h2:7/v?heartbeat=5" || nodes[1].address != "amqp://u@h2:7/v" {
		t.Errorf("got %+v, %v, want a URL for each host, and its address without the password", nodes, err)
	}
}

// A wrong list is an error that names the mistake and hides the password.
func TestParseNodes_WrongList(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"amqp://u:secret@h1,,h2/v":          "address 2 is empty",
		"amqp://u:secret@h1,h2,/v":          "address 3 is empty",
		"amqp://u:secret@,/v":               "address 1 is empty",
		"amqp://u:secret@h1,h2,h1:5672/v":   "h1:5672 twice",
		"amqp://u:secret@h1,H1/v":           "h1:5672 twice",
		"amqp://u:secret@h1,h2:x/v":         "is not like",
		"http://u:secret@h1,h2/v":           "is not like",
		"amqp://u:secret@h1/v,amqp://h2/v ": "is not like",
		"":                                  "is not like",
	} {
		_, err := parseNodes(list)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want an error with %q", list, err, want)
		}
	}
}

// dials notes which addresses are dialed when, and what happens there.
type dials struct {
	mu     sync.Mutex // guards the fields below
	begun  time.Time
	hosts  []string
	times  []time.Duration
	silent []net.Conn
}

// dial refuses h1, lets h2 never connect, and accepts at h3 without a word.
func (d *dials) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := strings.Cut(addr, ":")
	d.mu.Lock()
	d.hosts, d.times = append(d.hosts, host), append(d.times, time.Since(d.begun))
	d.mu.Unlock()
	switch host {
	case "h1":
		return nil, errors.New("connection refused")
	case "h2":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	go func() { _, _ = theirs.Read(make([]byte, 8)) }() // its header arrives
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = append(d.silent, theirs)
	return ours, nil
}

// A link tries its own host first, then the others: 2 s to connect, 3 s for the handshakes, and 200 ms after each round.
// Nodes that did not answer are left out for a while; the one that refuses is tried.
func TestLink_Cluster_RoundOverTheNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &dials{begun: time.Now()}
		config, err := Config{URL: "amqp://u:p@h1,h2,h3/", Log: slog.New(slog.DiscardHandler), DialContext: d.dial}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		l := newLink("test", config, func(ctx context.Context, at node) (*session, error) {
			return dialSession(ctx, config, at, "test")
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { l.run(ctx) })
		time.Sleep(connectTimeout + memberTimeout + silentFor) // of the bubble
		cancel()
		run.Wait()
		for _, c := range d.silent {
			_ = c.Close()
		}
		at := map[string]time.Duration{"h1": 0, "h2": connectTimeout, "h3": memberTimeout}
		when := time.Duration(0)
		for i, host := range d.hosts[:5] {
			if host == "h1" && i > 0 && i%3 == 0 {
				when += roundPause
			}
			if d.times[i] != when {
				t.Errorf("dial %d, %s: after %v, want %v", i, host, d.times[i], when)
			}
			when += at[host]
		}
		if first := d.hosts[:3]; first[0] != "h1" || !slices.Contains(first, "h2") || !slices.Contains(first, "h3") {
			t.Errorf("first round: dialed %v, want the own host and then the others", first)
		}
		silent := slices.Index(d.hosts[3:], "h2")
		if other := slices.Index(d.hosts[3:], "h3"); silent < 0 || other >= 0 && other < silent {
			silent = other
		}
		if silent < 0 || d.times[3+silent] < d.times[3]+silentFor-memberTimeout {
			t.Errorf("dialed %v at %v, want the silent nodes left out for %v, and then tried again", d.hosts, d.times, silentFor)
		}
	})
}

// While its connections have never been up a cluster is not ready. One that was lost may be on its way to another node: for
// as long as publishes wait for it, the bus is ready.
func TestReady_Cluster_OnTheWayToAnotherNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := Dial(Config{
			URL: "amqp://u:p@h1,h2,h3/", Log: slog.New(slog.DiscardHandler), SeparateWrites: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		time.Sleep(time.Minute) // of the bubble
		if !errors.Is(c.Ready(), mq.ErrUnavailable) {
			t.Errorf("never connected: got %v, want ErrUnavailable", c.Ready())
		}
		c.publishing.set(func() { c.publishing.lostAt = time.Now() })
		c.writing.set(func() { c.writing.lostAt = time.Now() })
		for _, tt := range []struct {
			wait time.Duration
			want error
		}{{0, nil}, {connectWait - time.Millisecond, nil}, {time.Millisecond, mq.ErrUnavailable}} {
			time.Sleep(tt.wait)
			if got := c.Ready(); !errors.Is(got, tt.want) {
				t.Errorf("%v more after the loss: got %v, want %v", tt.wait, got, tt.want)
			}
		}
		begun := time.Now()
		if got := c.Publish(t.Context(), mq.ReadQ, mq.Message{}); !errors.Is(got, mq.ErrUnavailable) || time.Since(begun) != connectWait {
			t.Errorf("publish: got %v after %v, want ErrUnavailable after %v", got, time.Since(begun), connectWait)
		}
	})
}

// The reply queue stays the present one while it is there. Then another node's is taken at once.
func TestChoice_StaysWhileItIsThere(t *testing.T) {
	t.Parallel()
	var told []string
	c := choice{names: make([]string, 3), ready: func(name string) { told = append(told, name) }}
	c.set(1, "b")
	c.set(0, "a")
	c.set(2, "c")
	c.set(1, "")
	c.set(1, "b2")
	c.set(2, "")
	c.set(0, "")
	c.set(1, "")
	if diff := cmp.Diff([]string{"b", "a", "b2", ""}, told); diff != "" {
		t.Errorf("names told (-want +got):\n%s", diff)
	}
}
