package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
)

// process is what the process of every service has.
type process struct {
	log      *slog.Logger
	requests *telemetry.Requests
	metrics  http.Handler
	auth     authorization
}

// begin sets up the process of a service.
func (c common) begin(out *output, name string) (process, error) {
	log, err := telemetry.NewLogger(out.stdout, c.LogLevel, name)
	if err != nil {
		return process{}, usagef("%v", err)
	}
	registry := telemetry.NewRegistry()
	requests, err := telemetry.NewRequests(registry, name)
	if err != nil {
		return process{}, err
	}
	auth, err := c.auth()
	return process{log: log, requests: requests, metrics: telemetry.Handler(registry), auth: auth}, err
}

// part is one service of its own, about to be served.
type part struct {
	addr    string
	handler http.Handler
	log     *slog.Logger
	// close ends what is behind the handler, after the last request.
	close func(context.Context) error
}

// serve serves a part until ctx ends or its listener breaks, then closes it
// within stopLimit.
func serve(ctx context.Context, p part) error {
	if err := checkAddress("--listen", p.addr); err != nil {
		return err
	}
	server := httpapi.NewServer(httpapi.ServerConfig{Addr: p.addr, Handler: p.handler, Log: p.log})
	err := server.Open(ctx)
	if err == nil {
		p.log.InfoContext(ctx, "part started", logkey.Addr, server.Addr())
		select {
		case <-ctx.Done():
		case err = <-server.Done():
			if err != nil {
				err = fmt.Errorf("listener: %w", err)
			}
		}
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	err = errors.Join(err, server.Close(stopCtx), p.close(stopCtx))
	p.log.Info("part stopped")
	return err
}
