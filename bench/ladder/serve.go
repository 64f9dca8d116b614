package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rideshare/bench/tutorial"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// ServeConfig says what one process of the benchmark serves.
type ServeConfig struct {
	Path string // one of the paths
	Dir  string // for its files
	// Bus, Coordinator and Prefix are for the paths that have a queue.
	Bus, Coordinator, Prefix string
	// CommitLog is for the path with the log in PostgreSQL.
	CommitLog system.Log
	// Rqlite is the program rqlited, for the paths of rqlite.
	Rqlite string
	// Ready is a file that receives the addresses, as JSON, once requests are answered.
	Ready string
	Log   *slog.Logger
}

// addresses is what a process that serves a path reports.
type addresses struct {
	Database string `json:"database"`          // base URL of /api/v1/db/read and so on
	Gateway  string `json:"gateway,omitempty"` // base URL of /api/v1/rides, if there is one
}

// Serve serves one path until ctx ends. The benchmark runs it in a separate process, so that each path has its own
// memory and its CPU time can be separated from the load's.
func Serve(ctx context.Context, cfg ServeConfig) (err error) {
	p, ok := pathOf(cfg.Path)
	if !ok {
		return fmt.Errorf("no path %q", cfg.Path)
	}
	s := &serving{cfg: cfg}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	reached, err := p.serve(ctx, s, p)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	text, err := json.Marshal(reached)
	if err != nil {
		return fmt.Errorf("encode addresses: %w", err)
	}
	temp := cfg.Ready + ".new"
	if err = os.WriteFile(temp, text, 0o600); err == nil {
		err = os.Rename(temp, cfg.Ready)
	}
	if err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	<-ctx.Done()
	return nil
}

// serving is what one process serves.
type serving struct {
	cfg     ServeConfig
	closers []func(context.Context) error
}

func (s *serving) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

func (s *serving) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer(ctx))
	}
	return errors.Join(errs...)
}

const anyPort = "127.0.0.1:0"

func (s *serving) listen(ctx context.Context, h http.Handler) (addresses, error) {
	server := httpapi.NewServer(httpapi.ServerConfig{Addr: anyPort, Handler: h, Log: s.cfg.Log})
	if err := server.Open(ctx); err != nil {
		return addresses{}, err
	}
	s.onClose(server.Close)
	return addresses{Database: server.URL()}, nil
}

func serveEmpty(ctx context.Context, s *serving, _ path) (addresses, error) {
	return s.listen(ctx, emptyAPI())
}

func serveBare(ctx context.Context, s *serving, _ path) (addresses, error) {
	b, err := newBare(filepath.Join(s.cfg.Dir, "bare.db"))
	if err != nil {
		return addresses{}, err
	}
	s.onClose(func(context.Context) error { return b.close() })
	return s.listen(ctx, b.api())
}

func serveRPC(ctx context.Context, s *serving, p path) (addresses, error) {
	t, err := tutorial.New(tutorial.Config{Settings: p.rpc, Bus: s.cfg.Bus, Dir: s.cfg.Dir, Prefix: s.cfg.Prefix})
	if err != nil {
		return addresses{}, err
	}
	s.onClose(func(context.Context) error { return t.Close() })
	return s.listen(ctx, databaseAPI(t.Read, t.Write, t.Execute))
}

// serveSystem starts the product as `rideshare up` does.
func serveSystem(ctx context.Context, s *serving, p path) (addresses, error) {
	cfg := system.Config{
		Log: s.cfg.Log, Data: filepath.Join(s.cfg.Dir, "data"), Name: "bench",
		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort,
		Slaves: p.slaves, StartsPerMinute: p.starts, CallTimeout: callTimeout, Unbatched: p.unbatched, Admission: p.stages.settings(), Cache: system.Cache{Off: p.uncached},
		// The number of slaves stays constant: the first tick is after the run.
		Scale:     system.Scale{Settings: scale.Settings{Policy: "reads", Min: p.slaves, Max: max(p.slaves, 1), ReadsPerSlave: 20}, Period: 24 * time.Hour},
		RideRules: system.RideRules{Now: time.Now, Location: time.UTC},
	}
	if p.queue {
		cfg.Processes = &system.Processes{Bus: s.cfg.Bus, Coordinator: s.cfg.Coordinator, Prefix: s.cfg.Prefix, LogLevel: "error"}
	}
	if p.postgres {
		cfg.Processes.CommitLog = s.cfg.CommitLog
	}
	if p.archived {
		cfg.Archive = system.Archive{
			URL: "file://" + filepath.Join(s.cfg.Dir, archiveFolder), Every: time.Second, SnapshotEvery: 24 * time.Hour, Keep: 7 * 24 * time.Hour, Backlog: 4 << 30,
		}
	}
	running, err := system.Start(ctx, cfg)
	if err != nil {
		return addresses{}, err
	}
	s.onClose(running.Close)
	urls := running.URLs()
	return addresses{Database: urls.Orchestrator, Gateway: urls.Gateway}, running.Ready(ctx)
}
