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

	"rideshare/bench/api"
	"rideshare/internal/wait"
	"rideshare/system"
)

// measured is the orchestrator of a running system that is measured from outside.
type measured struct{ api.Client }

func newMeasured(url string) measured {
	return measured{api.Client{Base: url, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}, Timeout: failoverCall}}
}

// startOwn starts a system for the run. The returned function stops the system and removes its data.
func (o *measured) startOwn(ctx context.Context, cfg system.Config) (running *system.System, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "rideshare-"+cfg.Name+"-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory: %w", err)
	}
	cfg.Log, cfg.Data, cfg.Orchestrator, cfg.CallTimeout = slog.New(slog.DiscardHandler), filepath.Join(dir, "data"), anyPort, callTimeout
	running, err = system.StartOrchestrator(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, removeServices(cfg.Processes), os.RemoveAll(dir))
	}
	stop = func() error {
		o.HTTP.CloseIdleConnections()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), failoverCall)
		defer cancel()
		return errors.Join(running.Close(closing), removeServices(cfg.Processes), os.RemoveAll(dir))
	}
	if err := running.Ready(ctx); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	o.Base = running.URLs().Orchestrator
	return running, stop, nil
}

// removeServices deletes what the system left at the broker and the coordinator.
func removeServices(p *system.Processes) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also for a run that was interrupted
	defer cancel()
	return p.Remove(ctx, slog.New(slog.DiscardHandler))
}

// pollEvery is how often the cluster is polled until it is complete.
const pollEvery = 20 * time.Millisecond

func masterOf(c api.Cluster) (api.Member, bool) {
	i := slices.IndexFunc(c.Members, func(m api.Member) bool { return m.Role == "master" && m.Ready })
	if i < 0 {
		return api.Member{}, false
	}
	return c.Members[i], true
}

func isWhole(c api.Cluster) bool {
	_, led := masterOf(c)
	return led && len(c.Members) == c.Desired+1 && !slices.ContainsFunc(c.Members, func(m api.Member) bool { return !m.Ready })
}

// whole waits until there is a master and every wanted slave.
func (o *measured) whole(ctx context.Context) (api.Cluster, error) {
	for deadline := time.Now().Add(failoverWhole); ; {
		var c api.Cluster
		err := o.call(ctx, http.MethodGet, "/api/v1/cluster", nil, &c)
		if err == nil && isWhole(c) {
			return c, nil
		}
		if time.Now().After(deadline) {
			return c, fmt.Errorf("not whole within %v: %+v: %w", failoverWhole, c, err)
		}
		if !wait.For(ctx, pollEvery) {
			return c, context.Cause(ctx)
		}
	}
}

// call makes a request that must be answered with 200, and decodes the answer into out unless out is nil.
func (o *measured) call(ctx context.Context, method, path string, in, out any) error {
	r := o.Call(ctx, method, path, in)
	if r.Failure(http.StatusOK) != "" {
		return fmt.Errorf("%s %s: %v", method, path, r)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Body, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
