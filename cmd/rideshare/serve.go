package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"rideshare/internal/httpapi"
	"rideshare/internal/lifeline"
	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
	"rideshare/system"
)

// process holds what every service process has.
type process struct {
	log      *slog.Logger
	requests *telemetry.Requests
	metrics  http.Handler
	auth     *httpapi.Credentials
}

// begin sets up the process of a service. It logs the settings, since no other part asks a service for them.
func (c common) begin(out *output, name string) (process, error) {
	log, err := c.logger(out, name)
	if err != nil {
		return process{}, err
	}
	log.Info("settings read", "changed", changed(out.settings))
	requests, err := telemetry.NewRequests(out.metrics, name)
	if err != nil {
		return process{}, err
	}
	auth, err := out.credentials("AUTH_FILE", c.AuthFile)
	return process{log: log, requests: requests, metrics: telemetry.Handler(out.metrics), auth: auth}, err
}

// server returns the settings of the server of a service. Without credentials the server warns if other machines can reach it.
func (p process) server(out *output, addr string, allowed hosts, h http.Handler) httpapi.ServerConfig {
	c := httpapi.ServerConfig{Addr: addr, AllowedHosts: allowed.AllowedHosts, Handler: h, TLS: out.tls.Server(false), Log: p.log}
	if p.auth == nil { // with credentials, the routes that clear or crash anything are protected; the contract leaves the others open
		c.Exposed = system.Exposed
	}
	return c
}

// part is one service, about to be served.
type part struct {
	httpapi.ServerConfig

	// onShutdown, if set, releases requests that wait for an event.
	onShutdown func()
	// close closes what is behind the handler, after the last request.
	close func(context.Context) error
}

// inherit ties this process to the launcher that started it, if there is one. It returns the listener that was handed
// over, or nil, and calls end when the parent is gone.
func inherit(ctx context.Context, log *slog.Logger, end func()) (net.Listener, error) {
	err := lifeline.Watch(ctx, func() {
		log.Warn("parent process is gone, ending")
		end()
	})
	if err != nil {
		return nil, fmt.Errorf("parent process: %w", err)
	}
	listener, err := lifeline.Listener()
	if errors.Is(err, lifeline.ErrNoListener) {
		return nil, nil //nolint:nilnil // nil is valid: the part then listens by itself.
	}
	if err != nil {
		return nil, fmt.Errorf("listener of the parent process: %w", err)
	}
	return listener, nil
}

// bind returns the listener of a part that a launcher may have started, if one was handed over; else it checks that the
// part can listen at addr, and returns nil. It calls end when the parent is gone. A part calls it before it opens anything,
// so that an occupied port has no other effect. It does not listen yet: while a part opens its files, callers must be
// refused, because a call that is accepted but not answered has an unknown outcome.
func bind(ctx context.Context, out *output, log *slog.Logger, addr string, end func()) (net.Listener, error) {
	if err := checkListen(addr); err != nil {
		return nil, err
	}
	listener, err := inherit(ctx, log, end)
	if err != nil || listener != nil {
		return listener, err
	}
	free, err := httpapi.Listen(ctx, addr)
	if err != nil {
		return nil, out.nameSettings(err, "listen")
	}
	return nil, free.Close()
}

// nameSettings adds to the error of an occupied port the settings that choose another port. flags are their names.
func (o *output) nameSettings(err error, flags ...string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	var names []string
	for _, s := range o.settings {
		if slices.Contains(flags, strings.TrimPrefix(s.Name, "--")) {
			names = append(names, fmt.Sprintf("%s (%s)", s.Name, s.Env))
		}
	}
	return fmt.Errorf("%w: end what listens there, or choose another with %s", err, strings.Join(names, ", "))
}

// checkListen checks the address of --listen.
func checkListen(addr string) error {
	if strings.HasPrefix(addr, httpapi.UnixScheme) {
		return nil
	}
	return checkAddress("--listen", addr)
}

// serve serves a part until ctx ends or its listener fails, then closes it within stopLimit.
func serve(ctx context.Context, out *output, p part) error {
	if err := checkListen(p.Addr); err != nil {
		return err
	}
	server := httpapi.NewServer(p.ServerConfig)
	if p.onShutdown != nil {
		server.OnShutdown(p.onShutdown)
	}
	err := out.nameSettings(server.Open(ctx), "listen")
	if err == nil {
		p.Log.InfoContext(ctx, "part started", logkey.Addr, server.Addr())
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
	closing, drained := httpapi.Draining(stopCtx, server)
	defer drained()
	err = errors.Join(err, server.Close(closing), p.close(stopCtx))
	p.Log.Info("part stopped")
	return err
}
