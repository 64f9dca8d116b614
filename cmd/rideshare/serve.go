package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

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

// begin sets up the process of a service.
func (c common) begin(out *output, name string) (process, error) {
	log, err := c.logger(out, name)
	if err != nil {
		return process{}, err
	}
	requests, err := telemetry.NewRequests(out.metrics, name)
	if err != nil {
		return process{}, err
	}
	auth, err := out.credentials("AUTH_FILE", c.AuthFile)
	return process{log: log, requests: requests, metrics: telemetry.Handler(out.metrics), auth: auth}, err
}

// exposed returns the warning for a service that other machines can reach.
func (p process) exposed() string {
	if p.auth != nil {
		return "" // routes that empty or crash anything require credentials, and the others are open by the contract
	}
	return system.Exposed
}

// part is one service, about to be served.
type part struct {
	addr  string
	hosts `group:"Access:"`
	// exposed is the warning, with the remedy, for listening beyond this machine; "" if there is none.
	exposed string
	// listener, if set, is used instead of addr; see bind.
	listener net.Listener
	// writeTimeout and readTimeout are for parts whose answers or requests may take longer than usual.
	writeTimeout, readTimeout time.Duration
	handler                   http.Handler
	tls                       *tls.Config
	log                       *slog.Logger
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
		return nil, nil //nolint:nilnil // none is a good answer: the part listens by itself then.
	}
	if err != nil {
		return nil, fmt.Errorf("listener of the parent process: %w", err)
	}
	return listener, nil
}

// bind returns the listener of a part that a launcher may have started, if one was handed over; else it checks that the
// part can listen at addr, and returns nil. It calls end when the parent is gone. A part calls it before it opens anything,
// so that an occupied port is all that goes wrong. It does not listen yet: callers of a part that still opens its files
// have to be refused, because a call that is accepted and not answered counts as one of unknown outcome.
func bind(ctx context.Context, log *slog.Logger, addr string, end func()) (net.Listener, error) {
	if err := checkListen(addr); err != nil {
		return nil, err
	}
	listener, err := inherit(ctx, log, end)
	if err != nil || listener != nil {
		return listener, err
	}
	free, err := httpapi.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return nil, free.Close()
}

// checkListen checks the address of --listen.
func checkListen(addr string) error {
	if strings.HasPrefix(addr, httpapi.UnixScheme) {
		return nil
	}
	return checkAddress("--listen", addr)
}

// serve serves a part until ctx ends or its listener fails, then closes it within stopLimit.
func serve(ctx context.Context, p part) error {
	if err := checkListen(p.addr); err != nil {
		return err
	}
	config := httpapi.ServerConfig{
		Addr: p.addr, Handler: p.handler, Log: p.log, WriteTimeout: p.writeTimeout, ReadTimeout: p.readTimeout,
		AllowedHosts: p.AllowedHosts, Exposed: p.exposed, TLS: p.tls, Listener: p.listener,
	}
	server := httpapi.NewServer(config)
	if p.onShutdown != nil {
		server.OnShutdown(p.onShutdown)
	}
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
	closing, drained := httpapi.Draining(stopCtx, server)
	defer drained()
	err = errors.Join(err, server.Close(closing), p.close(stopCtx))
	p.log.Info("part stopped")
	return err
}
