package ladder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/progressbar"
)

// The paths of Costs: the product without and with the features that should not slow down writes, as it is delivered or
// in one process.
const (
	pathPlain           = "writes"
	pathArchive         = "writes-archive"
	pathStreams         = "writes-streams"
	pathEmbeddedPlain   = "embedded-writes"
	pathEmbeddedArchive = "embedded-writes-archive"
	pathEmbeddedStreams = "embedded-writes-streams"
)

// CostGoal is the wanted rate of writes with an archive, or with streams of changes, as a part of the rate without them.
const CostGoal = 0.95

// archiveFolder is the archive in the folder of a path.
const archiveFolder = "archive"

// CostsConfig says how the cost of archive and change feed is measured.
type CostsConfig struct {
	Environment
	Embedded         bool // everything in one process, without broker and coordinator
	Clients, Streams int
	Rounds, Rows     int
	Duration         time.Duration // of one measurement
	Progress         progressbar.Output
}

// Costs is the rate of writes a second in each round: without anything, with an archive, and with streams of changes.
type Costs struct {
	Plain   []float64 `json:"plain"`
	Archive []float64 `json:"archive"`
	Streams []float64 `json:"streams"`
	// WithArchive and WithStreams compare with Plain, round by round.
	WithArchive Ratio `json:"with_archive"`
	WithStreams Ratio `json:"with_streams"`
}

func costPaths(embedded bool) []path {
	names := []string{pathPlain, pathArchive, pathStreams}
	if embedded {
		names = []string{pathEmbeddedPlain, pathEmbeddedArchive, pathEmbeddedStreams}
	}
	all := make([]path, len(names))
	for i, name := range names {
		all[i] = path{name: name, serve: serveSystem, queue: !embedded, product: true, slaves: 1, archived: i == 1}
	}
	return all
}

// MeasureCosts measures the writes of each path in turn, in another order in each round.
func MeasureCosts(ctx context.Context, cfg CostsConfig) (costs Costs, err error) {
	ways := costPaths(cfg.Embedded)
	s, err := newRig(ctx, Config{Environment: cfg.Environment, Rows: cfg.Rows, Progress: cfg.Progress}, ways, cfg.Rounds*len(ways))
	if err != nil {
		return costs, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	consumers, err := openConsumers(ctx, s.targets[ways[2].name].addresses.Database+"/api/v1/changes", cfg.Streams)
	if err != nil {
		return costs, err
	}
	defer consumers.close()
	rates := []*[]float64{&costs.Plain, &costs.Archive, &costs.Streams}
	for round := range cfg.Rounds {
		for i := range ways {
			n := (i + round) % len(ways)
			s.steps.Begin("writes on %s, round %d of %d", ways[n].name, round+1, cfg.Rounds)
			f, err := s.settled(ctx, run{target: s.targets[ways[n].name], work: workWrite, rows: cfg.Rows, clients: cfg.Clients, length: cfg.Duration})
			if err = errors.Join(err, f.wrong, ctx.Err()); err != nil {
				return costs, fmt.Errorf("%s: %w", ways[n].name, err)
			}
			*rates[n] = append(*rates[n], f.rate)
			s.steps.Done()
		}
	}
	costs.WithArchive, _ = ratioOf(costs.Archive, costs.Plain)
	costs.WithStreams, _ = ratioOf(costs.Streams, costs.Plain)
	return costs, errors.Join(consumers.check(), s.checkArchived(ways[1].name))
}

// checkArchived returns an error if the path has archived nothing, since its rates are then meaningless.
func (s *rig) checkArchived(name string) error {
	segments, err := filepath.Glob(filepath.Join(s.dir, name, archiveFolder, "*", "log", "*"))
	if err == nil && len(segments) == 0 {
		err = errors.New("nothing was archived")
	}
	return err
}

// consumers read streams of changes.
type consumers struct {
	leave context.CancelFunc
	all   sync.WaitGroup
	bytes []atomic.Int64 // that each one got
	cut   atomic.Int64   // streams that ended before leave
}

// openConsumers opens n streams.
func openConsumers(ctx context.Context, url string, n int) (*consumers, error) {
	ctx, leave := context.WithCancel(ctx)
	c := &consumers{leave: leave, bytes: make([]atomic.Int64, n)}
	for i := range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			c.close()
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("open a stream of changes: %w", err)
		}
		c.all.Go(func() { // ends with the stream
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode == http.StatusOK {
				c.read(resp.Body, &c.bytes[i])
			}
			if ctx.Err() == nil {
				c.cut.Add(1)
			}
		})
	}
	return c, nil
}

func (c *consumers) read(body io.Reader, count *atomic.Int64) {
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		count.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// check returns an error if a stream was cut off, since later rates are then with fewer streams, or if a consumer got nothing.
func (c *consumers) check() error {
	if n := c.cut.Load(); n > 0 {
		return fmt.Errorf("%d of %d streams of changes were cut off", n, len(c.bytes))
	}
	for i := range c.bytes {
		if c.bytes[i].Load() == 0 {
			return fmt.Errorf("stream of changes %d of %d got nothing", i+1, len(c.bytes))
		}
	}
	return nil
}

// close ends the streams.
func (c *consumers) close() {
	c.leave()
	c.all.Wait()
}
