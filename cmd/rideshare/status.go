package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/report"
	"rideshare/orchestrator/orchestratorapi"
)

const (
	// statusTimeout bounds one request for the status.
	statusTimeout = 10 * time.Second
	// watchEvery is the time between two requests for the status.
	watchEvery = time.Second
)

// statusCommand is `rideshare status`.
type statusCommand struct {
	URL   string `arg:"" optional:"" default:"http://127.0.0.1:8083" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator, ${orSeveral} (${default})."`
	Watch bool   `short:"w" env:"STATUS_WATCH" help:"Look again every second, until Ctrl-C."`
	JSON  string `name:"json" default:"" placeholder:"FILE" env:"STATUS_JSON" help:"Write the status there as JSON; - is standard output, without the table."`
	clientSettings
}

// Help implements kong's longer help.
func (*statusCommand) Help() string {
	return `LAG is in entries of the log, READS are in flight, BUSY is the share of a worker's places for reads that is in use. A '-' is not known,
since the worker does not answer.

Examples:
  rideshare status                                of 'rideshare up'
  rideshare status --watch
  rideshare status http://host:8083 --user ann --json - | jq .cluster.members

Exit code 0: the system is ready. 1: it is not, or it does not answer. 2: wrong usage. With --watch: 0 after Ctrl-C.`
}

// status is what `rideshare status` shows.
type status struct {
	URL   string `json:"url"`
	Ready bool   `json:"ready"`
	// Missing says what the system lacks; "" if it is ready.
	Missing string                        `json:"missing,omitempty"`
	Cluster orchestratorapi.ClusterStatus `json:"cluster"`
}

// Run shows the status, once or until ctx ends.
func (s *statusCommand) Run(ctx context.Context, out *output) error {
	base, transport, err := reachAPI(out, s.URL, unlimited)
	if err != nil {
		return err
	}
	if s.Watch && s.JSON != "" {
		return usagef("--watch and --json: give one of them")
	}
	defer transport.CloseIdleConnections()
	authorization, err := s.authorization(ctx, out)
	if err != nil {
		return err
	}
	from := source{api.Client{HTTP: &http.Client{Transport: transport}, Base: base, Authorization: authorization}}
	if s.Watch {
		return from.watch(ctx, out.stdout)
	}
	now, err := from.look(ctx)
	if err != nil {
		return err
	}
	if s.JSON == "-" {
		err = report.EncodeJSON(out.stdout, now)
	} else if err = report.WriteJSON(s.JSON, now); err == nil {
		err = screen{w: out.stdout, color: inColor(out.stdout)}.show(now, time.Now())
	}
	if err == nil && !now.Ready {
		err = fmt.Errorf("not ready: %s", now.Missing)
	}
	return err
}

// look requests the status.
func (f source) look(ctx context.Context) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	now := status{URL: f.Base}
	if err := f.ask(ctx, http.MethodGet, "/api/v1/cluster", &now.Cluster); err != nil {
		return now, err
	}
	err := f.ask(ctx, http.MethodGet, "/readyz", nil)
	if refused, ok := errors.AsType[*refusal](err); ok {
		now.Missing = refused.reason()
		return now, nil
	}
	now.Ready = err == nil
	return now, err
}

// watch shows the status every second until ctx ends. On a terminal each status replaces the previous one.
func (f source) watch(ctx context.Context, w io.Writer) error {
	view := screen{w: w, color: inColor(w), clear: isTerminal(w)}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		now, err := f.look(ctx)
		if ctx.Err() != nil {
			return nil // Ctrl-C ends it: nothing went wrong
		}
		if err != nil {
			err = view.failed(err)
		} else {
			err = view.show(now, time.Now())
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
