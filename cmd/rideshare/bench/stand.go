package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"rideshare/cmd/rideshare/assembly"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/scale"
)

// stand is everything that is measured, running side by side.
type stand struct {
	targets []target
	closers []func(context.Context) error
}

func newStand(ctx context.Context, rows int) (*stand, error) {
	s := &stand{}
	dir, err := os.MkdirTemp("", "rideshare-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	s.closers = append(s.closers, func(context.Context) error { return os.RemoveAll(dir) })
	for _, step := range []func(context.Context, string) error{
		s.startBare,
		func(ctx context.Context, dir string) error { return s.startSystem(ctx, dir, pathBatched) },
		func(ctx context.Context, dir string) error { return s.startSystem(ctx, dir, pathUnbatched) },
	} {
		if err := step(ctx, dir); err != nil {
			return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}
	for _, t := range s.targets {
		if t.path == pathHTTP {
			continue
		}
		if err := load(ctx, t.url, rows); err != nil {
			return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

func (s *stand) close(ctx context.Context) error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer(ctx))
	}
	return errors.Join(errs...)
}

// startBare starts the HTTP server alone and, on the same server, SQLite in process.
func (s *stand) startBare(ctx context.Context, dir string) error {
	b, err := newBare(filepath.Join(dir, "bare.db"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func(context.Context) error { return b.close() })
	for path, handler := range map[string]http.Handler{pathHTTP: emptyAPI(), pathInProcess: b.api()} {
		server := httpapi.NewServer(httpapi.ServerConfig{Addr: "127.0.0.1:0", Handler: handler, Log: slog.New(slog.DiscardHandler)})
		if err := server.Open(ctx); err != nil {
			return err
		}
		s.closers = append(s.closers, server.Close)
		s.targets = append(s.targets, target{path: path, url: server.URL()})
	}
	return nil
}

// startSystem starts the product, with one slave, as `rideshare up` does.
func (s *stand) startSystem(ctx context.Context, dir, path string) error {
	const anyPort = "127.0.0.1:0"
	system, err := assembly.Start(ctx, assembly.Config{
		Log: slog.New(slog.DiscardHandler), Data: filepath.Join(dir, path),
		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort,
		Slaves: 1, CallTimeout: 5 * time.Second, Unbatched: path == pathUnbatched,
		Scale:     assembly.Scale{Policy: scale.Policy{PerSlave: 20, Min: 1, Max: 1}, Period: time.Hour},
		RideRules: assembly.RideRules{Now: time.Now, Location: time.UTC},
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, system.Close)
	s.targets = append(s.targets, target{path: path, url: system.URLs().Orchestrator})
	return system.Ready(ctx)
}

// loadChunk is how many rows one request of the preparation carries.
const loadChunk = 1000

// load makes the table and fills it through the public API.
func load(ctx context.Context, url string, rows int) error {
	statements := []any{
		"CREATE TABLE bench (k TEXT NOT NULL PRIMARY KEY, g INTEGER NOT NULL, v TEXT NOT NULL)",
		"CREATE INDEX bench_g ON bench (g)",
	}
	for i := range rows {
		statements = append(statements, []any{"INSERT INTO bench (k, g, v) VALUES (?, ?, ?)", key(i), i / groupRows, fmt.Sprintf("value of row %d", i)})
		if len(statements) >= loadChunk || i == rows-1 {
			if err := execute(ctx, url, statements); err != nil {
				return err
			}
			statements = nil
		}
	}
	return nil
}

func execute(ctx context.Context, url string, statements []any) error {
	body, err := json.Marshal(statements)
	if err != nil {
		return fmt.Errorf("encode statements: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/db/execute?transaction", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"error"`)) {
		return fmt.Errorf("fill the table: %s %.300s: %w", resp.Status, text, err)
	}
	return nil
}

func machine() map[string]string {
	return map[string]string{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cores": fmt.Sprint(runtime.GOMAXPROCS(0)), "go": runtime.Version(),
	}
}
