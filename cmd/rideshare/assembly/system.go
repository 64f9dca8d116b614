package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	ridesapi "rideshare/rides/api"
	usersapi "rideshare/users/api"

	"rideshare/gateway"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/api"
	"rideshare/rides/usercheck"
)

// System is a running system.
type System struct {
	cfg  Config
	core *core

	orchestrator, users, rides, gateway *httpapi.Server
	metrics                             metrics

	// closers undo what was started, the last one first.
	closers []func(context.Context) error
}

// URLs says where a System listens.
type URLs struct {
	Gateway, Users, Rides, Orchestrator string
}

// Start starts everything and returns when the listeners are open; Ready waits
// until it serves. Close it. On an error nothing is left running.
func Start(ctx context.Context, cfg Config) (*System, error) {
	s := &System{cfg: cfg, metrics: metrics{registry: telemetry.NewRegistry()}}
	for _, step := range []func(context.Context) error{s.startCore, s.startOrchestrator, s.startServices} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

func (s *System) startCore(ctx context.Context) error {
	c, err := newCore(ctx, s.cfg)
	if err != nil {
		return err
	}
	s.core = c
	s.onClose(c.close)
	return telemetry.Register(s.metrics.registry, c.sampledMetrics()...)
}

func (s *System) startOrchestrator(ctx context.Context) error {
	observe, err := s.metrics.of("orchestrator")
	if err != nil {
		return err
	}
	if s.cfg.Credentials == nil {
		s.cfg.Log.WarnContext(ctx, "no AUTH_FILE: the database, crash and console routes are open to everybody who reaches them")
	}
	handler := api.New(api.Config{
		Log: s.cfg.Log, Dispatcher: s.core.dispatcher, Store: s.core.store, Cluster: cluster{s.core.loop, s.core.store},
		Checks: s.core.checks(), Credentials: s.cfg.Credentials, CallTimeout: s.cfg.CallTimeout,
		OnRequest: s.core.scaler.Requested, OnRead: s.core.scaler.Read, Observe: observe, Metrics: s.metrics.handler(),
		Decisions: func() any { return s.core.scaler.Decisions() }, Events: s.core.events,
	})
	if s.orchestrator, err = s.serve(ctx, s.cfg.Orchestrator, handler); err != nil {
		return err
	}
	s.orchestrator.OnShutdown(s.core.events.Close) // streams would hold up the end
	return nil
}

// startServices starts users, rides and the gateway. The gateway listens first,
// since rides must know where it is, and gets its routes last.
func (s *System) startServices(ctx context.Context) error {
	var routes lateHandler
	var err error
	if s.gateway, err = s.serve(ctx, s.cfg.Gateway, &routes); err != nil {
		return err
	}
	if err = s.startUsers(ctx); err != nil {
		return err
	}
	if err = s.startRides(ctx); err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Log: s.cfg.Log, Users: []string{s.users.URL()}, Rides: []string{s.rides.URL()},
	})
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	s.onClose(g.Close)
	routes.set(g.Handler())
	return nil
}

func (s *System) startUsers(ctx context.Context) error {
	observe, err := s.metrics.of("users")
	if err != nil {
		return err
	}
	db, err := s.database()
	if err != nil {
		return err
	}
	service := usersapi.New(usersapi.Config{DB: db, Log: s.cfg.Log, Observe: observe, Metrics: s.metrics.handler()})
	s.onClose(service.Close)
	s.users, err = s.serve(ctx, s.cfg.Users, service.Handler())
	return err
}

func (s *System) startRides(ctx context.Context) error {
	observe, err := s.metrics.of("rides")
	if err != nil {
		return err
	}
	db, err := s.database()
	if err != nil {
		return err
	}
	var routes lateHandler // rides names itself by its address, which is known once it listens
	if s.rides, err = s.serve(ctx, s.cfg.Rides, &routes); err != nil {
		return err
	}
	origin := s.cfg.RideRules.Origin
	if origin == "" {
		origin = s.rides.URL()
	}
	check, err := usercheck.New(usercheck.Config{Gateway: s.gateway.URL(), Origin: origin, Mode: s.cfg.RideRules.UserCheck})
	if err != nil {
		return fmt.Errorf("rides: %w", err)
	}
	s.onClose(func(context.Context) error { check.Close(); return nil })
	service, err := ridesapi.New(ridesapi.Config{
		DB: db, Users: check, Now: s.cfg.RideRules.Now, Location: s.cfg.RideRules.Location,
		Log: s.cfg.Log, Observe: observe, Metrics: s.metrics.handler(),
	})
	if err != nil {
		return fmt.Errorf("rides: %w", err)
	}
	s.onClose(service.Close)
	routes.set(service.Handler())
	return nil
}

func (s *System) database() (*dbclient.Client, error) {
	db, err := dbclient.New(dbclient.Config{
		URL: s.orchestrator.URL(), Authorization: s.cfg.Authorization, Timeout: 2 * s.cfg.CallTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("database client: %w", err)
	}
	s.onClose(func(context.Context) error { db.Close(); return nil })
	return db, nil
}

func (s *System) serve(ctx context.Context, addr string, h http.Handler) (*httpapi.Server, error) {
	server := httpapi.NewServer(httpapi.ServerConfig{Addr: addr, Handler: h, Log: s.cfg.Log})
	if err := server.Open(ctx); err != nil {
		return nil, err
	}
	s.onClose(server.Close)
	return server, nil
}

func (s *System) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// URLs returns where the system listens.
func (s *System) URLs() URLs {
	return URLs{Gateway: s.gateway.URL(), Users: s.users.URL(), Rides: s.rides.URL(), Orchestrator: s.orchestrator.URL()}
}

// readyPoll is how often Ready looks: often enough that it adds nothing that a person notices.
const readyPoll = 2 * time.Millisecond

// Ready waits until a master and all wanted slaves serve, or returns ctx's error.
func (s *System) Ready(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if ready, err := s.core.serves(ctx); err != nil || ready {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Close stops everything, listeners first, so that clients learn early and what
// is in hand finishes. It is bounded by ctx. Everything acknowledged is on disk
// in any case.
func (s *System) Close(ctx context.Context) error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer(ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}

// lateHandler answers 503 until its routes are known.
type lateHandler struct {
	handler atomic.Pointer[http.Handler]
}

func (l *lateHandler) set(h http.Handler) { l.handler.Store(&h) }

// ServeHTTP answers one request.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "starting", http.StatusServiceUnavailable)
}
