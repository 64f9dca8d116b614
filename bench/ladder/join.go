package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"rideshare/bench/api"
	"rideshare/internal/progressbar"
)

// JoinConfig says how much a new slave has to catch up with.
type JoinConfig struct {
	Environment
	MiB      int     // of data
	Writes   float64 // per second, during the catch-up too
	Progress progressbar.Output
}

// Joined is how long a new slave took, and how the writers were affected.
type Joined struct {
	// Ready is the time from the kill of the old slave until the new slave serves.
	Ready time.Duration `json:"ready_ns"`
	// Before has the writes before the death of the old slave, and shows how much this machine delays a write anyway.
	// After has the writes from then on.
	Before Noticed `json:"before"`
	After  Noticed `json:"after"`
}

// Noticed is how many writes were answered and how long they took.
type Noticed struct {
	Writes  int64         `json:"writes"`
	P99     time.Duration `json:"p99_ns"`
	Slowest time.Duration `json:"slowest_ns"`
}

func (f figure) noticed() Noticed {
	return Noticed{Writes: f.answers, P99: millis(f.p99), Slowest: millis(f.slowest)}
}

const (
	// joinLead is how long writes run before the slave dies; joinLength is how long they run afterwards.
	joinLead = 6 * time.Second
	// The kernel starts to write back dirty data after 30 s; writers are affected by that too.
	joinLength = 40 * time.Second
	joinPoll   = 5 * time.Millisecond
	// joinClients bounds the writes in flight.
	joinClients = 128
	// chunkRows rows of rowBytes each are written by one statement. Four rows fill a page of 4 KiB, so that the file is
	// as large as its rows.
	chunkRows = 4096
	rowBytes  = 1000
)

// Join kills a slave of a large database under writes and measures the time until its successor, which starts with no
// data, serves.
func Join(ctx context.Context, cfg JoinConfig) (Joined, error) {
	p, _ := pathOf(pathBatched)
	base := Config{Environment: cfg.Environment, Rows: fillChunk, Progress: cfg.Progress}
	s, err := newRig(ctx, base, []path{p}, cfg.chunks())
	if err != nil {
		return Joined{}, err
	}
	t := s.targets[p.name]
	joined := Joined{}
	if err = s.grow(ctx, t, cfg); err == nil {
		joined, err = t.join(ctx, cfg, base.Rows)
	}
	return joined, errors.Join(err, s.close())
}

// chunks is how many statements fill the database.
func (cfg JoinConfig) chunks() int {
	return (cfg.MiB<<20 + chunkRows*rowBytes - 1) / (chunkRows * rowBytes)
}

// grow fills the database.
func (s *rig) grow(ctx context.Context, t *target, cfg JoinConfig) error {
	defer s.steps.End()
	if err := execute(ctx, t.addresses.Database, []any{"CREATE TABLE large (id INTEGER PRIMARY KEY, v TEXT NOT NULL)"}); err != nil {
		return err
	}
	s.steps.Begin("writing %d MiB", cfg.MiB)
	for range cfg.chunks() {
		err := execute(ctx, t.addresses.Database, []any{[]any{
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) INSERT INTO large (v) SELECT hex(randomblob(?)) FROM n", chunkRows, rowBytes / 2,
		}})
		if err != nil {
			return err
		}
		s.steps.Done()
	}
	syscall.Sync() // so that the write-back of the data just written does not delay the measured writes: a real database was not filled just now.
	return nil
}

func (t *target) join(ctx context.Context, cfg JoinConfig, rows int) (Joined, error) {
	before, err := t.slaves(ctx)
	if err != nil {
		return Joined{}, err
	}
	end := cfg.Progress.Timed(joinLead, "writes before the slave dies")
	writes := run{target: t, work: workWrite, rows: rows, clients: joinClients, length: joinLead, offered: cfg.Writes}
	lead, err := writes.measure(ctx)
	end()
	if err = errors.Join(err, lead.wrong); err != nil {
		return Joined{}, err
	}
	defer cfg.Progress.Timed(joinLength, "writes after the slave died")()
	type outcome struct {
		figure
		err error
	}
	wrote := make(chan outcome, 1)
	writes.length = joinLength
	go func() { // ends after joinLength
		f, runErr := writes.measure(ctx)
		wrote <- outcome{f, runErr}
	}()
	took, err := t.replaceSlave(ctx, before)
	w := <-wrote
	if err = errors.Join(err, w.err, w.wrong); err != nil {
		return Joined{}, err
	}
	return Joined{Ready: took, Before: lead.noticed(), After: w.noticed()}, nil
}

// replaceSlave kills the slave and waits until another one serves.
func (t *target) replaceSlave(ctx context.Context, before []int) (time.Duration, error) {
	start := time.Now()
	if _, err := ask(ctx, http.MethodPost, t.addresses.Database+"/api/v1/crash/slave", nil); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := poll(ctx, joinPoll, errors.New("no new slave serves"), func() (bool, error) {
		now, err := t.slaves(ctx)
		return slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(before, pid) }), err
	})
	return time.Since(start), err
}

// slaves returns the serving slaves.
func (t *target) slaves(ctx context.Context) ([]int, error) {
	members, err := t.members(ctx)
	var out []int
	for _, m := range members {
		if m.Role == "slave" && m.Ready {
			out = append(out, m.PID)
		}
	}
	return out, err
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// members returns the workers as reported by the orchestrator.
func (t *target) members(ctx context.Context) ([]api.Member, error) {
	text, err := ask(ctx, http.MethodGet, t.addresses.Database+"/api/v1/cluster", nil)
	if err != nil {
		return nil, err
	}
	var cluster api.Cluster
	if err = json.Unmarshal(text, &cluster); err != nil {
		return nil, fmt.Errorf("decode the cluster: %w", err)
	}
	return cluster.Members, nil
}
