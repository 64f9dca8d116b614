package ladder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Standalone is the product, started in processes of its own for another measurement.
type Standalone struct {
	target *target
	dir    string
}

// standaloneStarts is how many workers a Standalone may start a minute, so that a measurement that crashes them over and
// over measures requests and not starts.
const standaloneStarts = 4

// The paths of a Standalone.
const (
	pathStandalone         = "standalone"
	pathEmbeddedStandalone = "embedded-standalone"
)

func standalonePaths() []path {
	return []path{
		{name: pathStandalone, serve: serveSystem, queue: true, product: true, slaves: 1, starts: standaloneStarts},
		{name: pathEmbeddedStandalone, serve: serveSystem, product: true, slaves: 1, starts: standaloneStarts},
	}
}

// StartStandalone starts the product on the broker and the coordinator of env, or in one process if env names no broker,
// and returns once it serves. The caller must Stop it.
func StartStandalone(ctx context.Context, env Environment) (*Standalone, error) {
	name := pathStandalone
	if env.Bus == "" {
		name = pathEmbeddedStandalone
	}
	p, _ := pathOf(name)
	dir, err := os.MkdirTemp("", "rideshare-load-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	t, err := startTarget(ctx, p, filepath.Join(dir, p.name), env)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Standalone{target: t, dir: dir}, nil
}

// URL is the base URL of the orchestrator.
func (s *Standalone) URL() string { return s.target.addresses.Database }

// Stop ends the processes and removes their data.
func (s *Standalone) Stop() error { return errors.Join(s.target.stop(), os.RemoveAll(s.dir)) }
