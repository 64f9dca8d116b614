package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
)

// prepareLimit bounds the preparation.
const prepareLimit = 2 * time.Minute

// Result has all results of a run.
type Result struct {
	Targets Targets         `json:"targets"`
	Run     string          `json:"run"` // part of the names of everything that it wrote
	Seed    uint64          `json:"seed"`
	Mix     Mix             `json:"mix_percent"`
	Ended   bool            `json:"ended_early"` // by a signal
	Load    loadgen.Summary `json:"load"`
	Samples []Sample        `json:"samples"`
	// Decisions are the scaling decisions during the run, oldest first.
	Decisions []Decision   `json:"decisions"`
	Check     ledger.Check `json:"check"`
}

// Run runs the load and checks it. The end of ctx ends the load early; the data written by then is still checked. An
// error without a result means that the run failed; an error with a result means that the written data could not be
// removed.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	defer client.close()
	if err = reachable(ctx, client); err != nil {
		return nil, err
	}
	run := uuid.NewString()[:8]
	d := &driver{client: client, book: newBook(run, cfg.Seed), mix: cfg.Mix}
	_, _ = fmt.Fprintf(cfg.Progress, "run %s: preparing %d users\n", run, cfg.Users) // progress only.
	prepareCtx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err = d.prepare(prepareCtx, cfg.Users); err != nil {
		return nil, err
	}
	result := &Result{Targets: cfg.Targets, Run: run, Seed: cfg.Seed, Mix: cfg.Mix}
	if err = d.load(ctx, cfg, result); err != nil {
		return nil, err
	}
	result.Ended = ctx.Err() != nil
	// The run may have been ended early; its writes are still checked.
	ctx = context.WithoutCancel(ctx)
	_, _ = fmt.Fprintln(cfg.Progress, "checking that everything acknowledged is there, once") // progress only.
	end := cfg.Progress.Timed(verifyLimit, "checking what was acknowledged")
	result.Check = d.verify(ctx)
	end()
	if cfg.Clean {
		if err = d.clean(ctx); err != nil {
			return result, fmt.Errorf("clean up: %w", err)
		}
	}
	return result, nil
}

// reachable sends every target one request, so that a wrong address is reported before anything else.
func reachable(ctx context.Context, c *client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, target := range []struct {
		flag, path string
		client     *api.Client
	}{
		{"--orchestrator", "/api/v1/worker/list", c.orchestrator},
		{"--users, --gateway", "/api/v1/users/_count", c.users},
		{"--rides, --gateway", "/api/v1/rides/count", c.rides},
	} {
		if r := target.client.Call(ctx, http.MethodGet, target.path, nil); r.Failure(http.StatusOK) != "" {
			if wrapped, ok := errors.AsType[*url.Error](r.Err); ok {
				r.Err = wrapped.Err // without the URL, which is in the error already.
			}
			return fmt.Errorf("no system there, set %s or --ready-file: GET %s: %v", target.flag, target.client.Base+target.path, r)
		}
	}
	return nil
}

// load sends the requests, watches the cluster, and reports the progress.
func (d *driver) load(ctx context.Context, cfg Config, result *Result) error {
	recorder := loadgen.NewRecorder()
	w := &watch{client: d.client, start: time.Now()}
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { w.run(watchCtx) })
	end := cfg.Progress.Follow((&progress{plan: cfg.Plan, recorder: recorder, watch: w}).state)
	summary, err := loadgen.Run(ctx, loadgen.Config{
		Plan: cfg.Plan, Loop: cfg.Loop, MaxInFlight: cfg.MaxInFlight, Call: d.call, Recorder: recorder,
	})
	end()
	stop()
	beside.Wait()
	if err != nil {
		return fmt.Errorf("send the load: %w", err)
	}
	result.Load = summary
	result.Samples, result.Decisions = w.seen()
	return nil
}

// client has a client for each target.
type client struct{ users, rides, orchestrator *api.Client }

func newClient(cfg Config) (*client, error) {
	transport := &http.Transport{
		MaxIdleConns: 0, MaxIdleConnsPerHost: max(cfg.MaxInFlight, int(cfg.Plan.Peak())), DisableCompression: true,
		IdleConnTimeout: 30 * time.Second, // shorter than the servers', which would otherwise close a connection under a request.
	}
	cfg.TLS.Trust(transport)
	all := &api.Client{
		Authorization: cfg.Authorization, User: cfg.As, Timeout: cfg.Timeout,
		HTTP: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	users, usersErr := all.At(cfg.Targets.Users, cfg.TLS)
	rides, ridesErr := all.At(cfg.Targets.Rides, cfg.TLS)
	orchestrator, orchestratorErr := all.At(cfg.Targets.Orchestrator, cfg.TLS)
	return &client{users, rides, orchestrator}, errors.Join(usersErr, ridesErr, orchestratorErr)
}

func (c *client) close() {
	for _, one := range []*api.Client{c.users, c.rides, c.orchestrator} {
		one.HTTP.CloseIdleConnections()
	}
}

// read sends a structured read to the orchestrator.
func (c *client) read(ctx context.Context, table string, columns []string, condition map[string]any) api.Reply {
	return c.orchestrator.Call(ctx, http.MethodPost, "/api/v1/db/read",
		map[string]any{"table": table, "columns": columns, "condition": condition})
}
