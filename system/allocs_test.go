//go:build !race

// The race detector makes sync.Pool forget at random, so allocations are counted without it:
// `make test` runs this by itself.

package system_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// pointReadAllocs is how many allocations one point read causes on its way there and back if it is alone in its message:
// HTTP server, orchestrator, bus, slave, SQLite and reply. Measured; lower it when the number drops.
const pointReadAllocs = 89

// cachedReadAllocs is the same for a point read that the orchestrator's cache answers.
const cachedReadAllocs = 46

// start starts the system in one process.
func start(tb testing.TB, cache system.Cache) *system.System {
	tb.Helper()
	const anyPort = "127.0.0.1:0"
	protection := admission.Defaults()
	s, err := system.Start(tb.Context(), system.Config{
		Log: slog.New(slog.DiscardHandler), Data: tb.TempDir(), Name: "allocs",
		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort, Slaves: 1, CallTimeout: 5 * time.Second,
		Scale:     system.Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Hour},
		Cache:     cache,
		Admission: &protection,
		RideRules: system.RideRules{Now: time.Now, Location: time.UTC},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if closeErr := s.Close(context.Background()); closeErr != nil {
			tb.Error(closeErr)
		}
	})
	if err = s.Ready(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// caller sends one request again and again on one connection, without allocating.
type caller struct {
	tb      testing.TB
	conn    net.Conn
	request []byte
	answer  []byte
}

func newCaller(tb testing.TB, url, path, body string) *caller {
	tb.Helper()
	addr := strings.TrimPrefix(url, "http://")
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &caller{
		tb: tb, conn: conn, answer: make([]byte, 4096),
		request: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, addr, len(body), body),
	}
}

// call returns the answer as it came; it is short and comes in one piece.
func (c *caller) call() []byte {
	if _, err := c.conn.Write(c.request); err != nil {
		c.tb.Fatal(err)
	}
	n, err := c.conn.Read(c.answer)
	if err != nil {
		c.tb.Fatal(err)
	}
	return c.answer[:n]
}

const pointRead = `{"table":"users","columns":["username","password"],"condition":{"username":"ann"}}`

// A point read allocates no more than it did, with a fifth to spare.
func TestPointRead_Allocations(t *testing.T) {
	t.Run("Slave", func(t *testing.T) { pointReadAllocations(t, system.Cache{Off: true}, pointReadAllocs) })
	t.Run("Cache", func(t *testing.T) { pointReadAllocations(t, system.Cache{}, cachedReadAllocs) })
}

func pointReadAllocations(t *testing.T, cache system.Cache, most float64) {
	t.Helper()
	url := start(t, cache).URLs().Orchestrator
	write := newCaller(t, url, "/api/v1/db/write", `{"query":"insert","table":"users","values":{"username":"ann","password":"secret"}}`)
	if got := write.call(); !bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
		t.Fatalf("write: got %s", got)
	}
	read := newCaller(t, url, "/api/v1/db/read", pointRead)
	if got := read.call(); !bytes.HasSuffix(got, []byte(`[{"username":"ann","password":"secret"}]`)) {
		t.Fatalf("read: got %s, want ann's row", got)
	}
	got := testing.AllocsPerRun(2000, func() { read.call() })
	t.Logf("%.0f allocations", got)
	if limit := most * 1.2; got > limit {
		t.Errorf("got %.0f allocations for a point read, want at most %.0f", got, limit)
	}
}

// BenchmarkPointRead is one client's point reads through the whole system in one process.
func BenchmarkPointRead(b *testing.B) {
	read := newCaller(b, start(b, system.Cache{Off: true}).URLs().Orchestrator, "/api/v1/db/read", pointRead)
	b.ReportAllocs()
	for b.Loop() {
		read.call()
	}
}
