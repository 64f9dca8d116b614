package remote_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/launchtest"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/process"
	"rideshare/orchestrator/launch/remote"
	"rideshare/orchestrator/launch/remote/launchapi"
)

// envWorker makes the test binary a worker.
const envWorker = "REMOTE_TEST_WORKER"

func TestMain(m *testing.M) { launchtest.Main(m, envWorker) }

const token = "secret-of-this-test"

// part is the launcher part: a launcher behind the API, on a real listener.
type part struct {
	launcher launch.Launcher
	address  string
	url      string
	service  *launchapi.Service
	server   *httpapi.Server
}

// newPart serves a launcher of processes at that address, which may have port 0.
func newPart(tb testing.TB, address string) *part {
	tb.Helper()
	workers, err := process.New(process.Config{
		Dir: tb.TempDir(), Args: func(process.Spec) []string { return nil }, Env: append(os.Environ(), envWorker+"=1"),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := workers.Close(context.Background()); err != nil {
			tb.Errorf("close launcher: %v", err)
		}
	})
	p := &part{launcher: workers, address: address}
	p.serve(tb)
	tb.Cleanup(func() { p.close(tb) })
	return p
}

// serve makes the part answer, at its start and after close.
func (p *part) serve(tb testing.TB) {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	p.service = launchapi.New(launchapi.Config{Launcher: p.launcher, Log: log, Token: token})
	p.server = httpapi.NewServer(httpapi.ServerConfig{Addr: p.address, Handler: p.service.Handler(), Log: log})
	p.server.OnShutdown(p.service.Shutdown)
	if err := p.server.Open(context.Background()); err != nil {
		tb.Fatal(err)
	}
	if p.url = p.address; !strings.HasPrefix(p.address, httpapi.UnixScheme) {
		p.url = p.server.URL()
	}
}

func (p *part) close(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.server.Close(ctx); err != nil {
		tb.Errorf("close the part: %v", err)
	}
}

// client returns a launcher that calls the part.
func (p *part) client(tb testing.TB) *remote.Launcher {
	tb.Helper()
	l, err := remote.New(remote.Config{URL: p.url, Token: token})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return l
}

// A launcher in another process keeps every promise of launch.Launcher, over TCP and over a socket.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(testing.TB) string{
		"TCP": func(testing.TB) string { return "127.0.0.1:0" },
		"Unix": func(tb testing.TB) string {
			tb.Helper()
			return httpapi.UnixScheme + filepath.Join(tb.TempDir(), "launcher.sock")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			launchtest.Run(t, launchtest.Features{}, func(tb testing.TB) launchtest.World {
				tb.Helper()
				l := newPart(tb, address(tb)).client(tb)
				l.SetListTimeout(30 * time.Second) // a slow machine's list is still an answer
				return launchtest.StubWorld{Launcher: l}
			})
		})
	}
}
