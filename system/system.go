package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"rideshare/gateway"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/rideschema"
	"rideshare/internal/service"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/orchestratorapi"
	"rideshare/rides"
	"rideshare/rides/ridesapi"
	"rideshare/rides/usercheck"
	"rideshare/users/usersapi"
)

// System is a running system.
type System struct {
	cfg   Config
	parts *orchestratorParts

	orchestrator, users, rides, gateway *httpapi.Server
	metrics                             metrics
	clients                             []*dbclient.Client // of users and rides

	// closers undo what was started before the parts, in reverse order. servers are the servers among them.
	closers   []func(context.Context) error
	servers   []*httpapi.Server
	bound     map[string]net.Listener // by part
	closeCore func(context.Context) error
}

// URLs are the addresses where a System listens.
type URLs struct {
	Gateway, Users, Rides, Orchestrator string
}

// Start starts everything and returns once the listeners are open; Ready waits until the system serves. The caller must
// Close it. After an error nothing is left running.
func Start(ctx context.Context, cfg Config) (*System, error) {
	return start(ctx, cfg, (*System).bindAll, (*System).startCore, (*System).startOrchestrator, (*System).startServices)
}

// StartOrchestrator starts only the orchestrator and its workers; users, rides and gateway run elsewhere. Of URLs only
// the orchestrator's address is set.
func StartOrchestrator(ctx context.Context, cfg Config) (*System, error) {
	return start(ctx, cfg, (*System).bindOrchestrator, (*System).startCore, (*System).startOrchestrator)
}

func start(ctx context.Context, cfg Config, steps ...func(*System, context.Context) error) (*System, error) {
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	s := &System{cfg: cfg, metrics: m}
	for _, step := range steps {
		if err := step(s, ctx); err != nil {
			return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

func (s *System) startCore(ctx context.Context) error {
	c, err := newCore(ctx, s.cfg, s.metrics)
	if err != nil {
		return err
	}
	s.parts, s.closeCore = c, c.close
	return telemetry.Register(s.metrics.registry, c.sampledMetrics(s.cfg.Processes == nil)...)
}

func (s *System) startOrchestrator(ctx context.Context) error {
	observe, err := s.metrics.of("orchestrator")
	if err != nil {
		return err
	}
	if s.cfg.Credentials == nil {
		s.cfg.Log.WarnContext(ctx, "no AUTH_FILE: the database, crash and console routes are open to everybody who reaches them", logkey.Addr, s.cfg.Orchestrator)
	}
	api := orchestratorapi.Config{
		Log: s.cfg.Log, Store: s.parts.store, Cluster: s.parts.cluster(),
		Checks: s.parts.checks(), Credentials: s.cfg.Credentials, Budget: s.cfg.Budget, MaxStatements: s.cfg.MaxStatements, CallTimeout: s.cfg.CallTimeout,
		LoadTime: s.cfg.LoadTime, MaxTimeout: s.cfg.MaxTimeout, Version: s.cfg.Version, AllowOrigin: s.cfg.AllowOrigin,
		OnRequest: s.parts.scaler.Requested, OnRead: s.parts.scaler.Read, Metrics: s.metrics.handler(),
		Decisions: func(ctx context.Context) any { return s.parts.scaler.Decisions(ctx) }, Events: s.parts.events, Changes: s.parts.changes,
		Invariants: s.parts.checker().Run, Clear: rideschema.Clear(), Present: rideschema.Present,
		Live: s.parts.live, Areas: rides.AreasCSV(), Scaling: s.parts.scaler, About: s.cfg.About, Parts: s.parts.settings,
		Observe: func(route, method string, status int, took time.Duration, trace string) {
			observe(route, method, status, took, trace)
			s.parts.live.Observe(route, method, status, took)
		},
	}
	s.parts.useCache(&api)
	api.Admission = s.parts.gate
	handler := orchestratorapi.New(api)
	if s.orchestrator, err = s.serve(ctx, "orchestrator", httpapi.ServerConfig{Addr: s.cfg.Orchestrator, Handler: handler, AddHeaders: handler.AddHeaders}); err != nil {
		return err
	}
	s.orchestrator.OnShutdown(s.parts.events.Close) // open streams would delay the shutdown
	s.orchestrator.OnShutdown(s.parts.changes.Close)
	s.orchestrator.OnShutdown(s.parts.live.Close)
	measuring, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.onClose(func(context.Context) error { stop(); return nil })
	s.parts.background.Go(func() { s.parts.live.Run(measuring) })
	return nil
}

// startServices starts users, the gateway and rides. The gateway listens before rides, which needs its address, and gets
// its routes last. They stop in reverse: rides ask users through the gateway.
func (s *System) startServices(ctx context.Context) error {
	err := s.startUsers(ctx)
	if err != nil {
		return err
	}
	routes, needs := httpapi.NewLateHandler(), s.closeLater()
	if s.gateway, err = s.serveOpen(ctx, "gateway", s.cfg.Gateway, routes); err != nil {
		return err
	}
	if err = s.startRides(ctx); err != nil {
		return err
	}
	if err = telemetry.Register(s.metrics.registry, ClientMetrics(s.clients...)); err != nil {
		return err
	}
	observe, err := s.metrics.of("gateway")
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Log: s.cfg.Log, Observe: observe, Users: []string{s.users.URL()}, Rides: []string{s.rides.URL()}, TLS: s.cfg.TLS,
	})
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	needs(g.Close)
	routes.Set(g.Handler())
	return nil
}

func (s *System) startUsers(ctx context.Context) error {
	cfg, err := s.serviceConfig("users")
	if err != nil {
		return err
	}
	users := usersapi.New(usersapi.Config{Config: cfg})
	s.onClose(users.Close)
	s.users, err = s.serveOpen(ctx, "users", s.cfg.Users, users.Handler())
	return err
}

func (s *System) startRides(ctx context.Context) error {
	cfg, err := s.serviceConfig("rides")
	if err != nil {
		return err
	}
	// rides identifies itself by its address, which is known once it listens
	routes, needs := httpapi.NewLateHandler(), s.closeLater()
	if s.rides, err = s.serveOpen(ctx, "rides", s.cfg.Rides, routes); err != nil {
		return err
	}
	origin := cmp.Or(s.cfg.RideRules.Origin, s.rides.URL())
	check, err := usercheck.New(usercheck.Config{Gateway: s.gateway.URL(), Origin: origin, Mode: s.cfg.RideRules.UserCheck, TLS: s.cfg.TLS})
	if err != nil {
		return fmt.Errorf("rides: %w", err)
	}
	needs(func(context.Context) error { check.Close(); return nil })
	rides, err := ridesapi.New(ridesapi.Config{Config: cfg, Users: check, Now: s.cfg.RideRules.Now, Location: s.cfg.RideRules.Location})
	if err != nil {
		return fmt.Errorf("rides: %w", err)
	}
	needs(rides.Close)
	routes.Set(rides.Handler())
	return nil
}

// serviceConfig returns the settings of users or rides.
func (s *System) serviceConfig(name string) (service.Config, error) {
	observe, err := s.metrics.of(name)
	if err != nil {
		return service.Config{}, err
	}
	db, err := s.database()
	return service.Config{DB: db, Log: s.cfg.Log, Observe: observe, Metrics: s.metrics.handler(), Credentials: s.cfg.Credentials, Budget: s.cfg.Budget}, err
}

func (s *System) database() (*dbclient.Client, error) {
	db, err := dbclient.New(dbclient.Config{
		URL: s.orchestrator.URL(), Authorization: func() string { return s.cfg.Authorization }, Timeout: 2 * s.cfg.CallTimeout, TLS: s.cfg.TLS,
	})
	if err != nil {
		return nil, fmt.Errorf("database client: %w", err)
	}
	s.onClose(func(context.Context) error { db.Close(); return nil })
	s.clients = append(s.clients, db)
	return db, nil
}

// Exposed is the warning, with the remedy, that users, rides or the gateway can be reached from other machines without
// AUTH_FILE.
const Exposed = "everybody who reaches it may change and empty the database: set AUTH_FILE, or listen on 127.0.0.1"

// serveOpen serves routes that are open by the contract. It logs a warning if other machines can reach the routes that
// empty the database.
func (s *System) serveOpen(ctx context.Context, part, addr string, h http.Handler) (*httpapi.Server, error) {
	cfg := httpapi.ServerConfig{Addr: addr, Handler: h}
	if s.cfg.Credentials == nil {
		cfg.Exposed = Exposed
	}
	return s.serve(ctx, part, cfg)
}

func (s *System) serve(ctx context.Context, part string, cfg httpapi.ServerConfig) (*httpapi.Server, error) {
	cfg.Listener = s.bound[part]
	cfg.Log, cfg.AllowedHosts, cfg.TLS = s.cfg.Log, s.cfg.AllowedHosts, s.cfg.TLS.Server(false)
	server := httpapi.NewServer(cfg)
	if err := server.Open(ctx); err != nil {
		return nil, err
	}
	s.onClose(server.Close)
	s.servers = append(s.servers, server)
	return server, nil
}

func (s *System) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// closeLater returns an onClose for what is started after a server, and closed once that server has stopped.
func (s *System) closeLater() (onClose func(f func(context.Context) error)) {
	var closers []func(context.Context) error
	s.onClose(func(ctx context.Context) error { return closeAll(ctx, closers) })
	return func(f func(context.Context) error) { closers = append(closers, f) }
}

// URLs returns where the system listens.
func (s *System) URLs() URLs {
	urls := URLs{Orchestrator: s.orchestrator.URL()}
	if s.gateway != nil {
		urls.Gateway, urls.Users, urls.Rides = s.gateway.URL(), s.users.URL(), s.rides.URL()
	}
	return urls
}

// readyPoll is how often Ready checks: often enough that no person notices the delay.
const readyPoll = 2 * time.Millisecond

// waitingLog is how often Ready logs what it waits for. A normal start takes less than warnedAfter of these intervals.
// From then on each line is a warning, which is also shown on a terminal.
const (
	waitingLog  = 10 * time.Second
	warnedAfter = 3
)

// Failed yields an error once the system knows that it can never serve: the broker refuses the user, the password, the
// vhost or the largest message, or a server's host name does not resolve.
func (s *System) Failed() <-chan error { return s.parts.failed }

// Ready waits until a master and all wanted slaves serve, or returns ctx's error, or that of Failed. The parts may start
// in any order, so Ready waits as long as it takes, and logs what it waits for.
func (s *System) Ready(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	waiting := time.NewTicker(waitingLog)
	defer waiting.Stop()
	for waited := 0; ; {
		missing := s.parts.missing(ctx)
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.parts.failed:
			return err
		case <-waiting.C:
			waited++
			level := slog.LevelInfo
			if waited >= warnedAfter {
				level = slog.LevelWarn
			}
			s.cfg.Log.Log(ctx, level, "waiting to be ready", "missing", missing, "away", s.parts.away(ctx))
		case <-tick.C:
		}
	}
}

// Close stops everything, and gives up when ctx ends. The servers stop first, so that clients notice early, each before
// the parts that its requests need: rides, gateway, users, orchestrator. So pending requests can finish if they need
// little time. Everything acknowledged is on disk in any case.
func (s *System) Close(ctx context.Context) error {
	closing, drained := httpapi.Draining(ctx, s.servers...)
	defer drained()
	closers := s.closers
	s.closers = nil
	err := closeAll(closing, closers)
	if s.closeCore != nil {
		err = errors.Join(err, s.closeCore(ctx))
		s.closeCore = nil
	}
	return err
}
