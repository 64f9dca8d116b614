package main

import (
	"context"
	"fmt"
	"time"

	"rideshare/gateway"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/service"
	"rideshare/internal/telemetry"
	"rideshare/rides/ridesapi"
	"rideshare/rides/usercheck"
	"rideshare/system"
	"rideshare/users/usersapi"
)

// database holds the settings of a service that stores its data through the orchestrator.
type database struct {
	OrchestratorURL string        `required:"" placeholder:"URL" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator, or several, separated by commas: the first that answers is used."`
	CallTimeout     time.Duration `default:"5s" env:"CALL_TIMEOUT" help:"Longest wait of the orchestrator for a worker's answer (${default})."`
	// ServiceAuthFile has its own default: AUTH_FILE.
	ServiceAuthFile string `default:"" placeholder:"FILE" env:"SERVICE_AUTH_FILE" help:"File of credentials whose first 'bearer' or 'basic' line is sent to the orchestrator. Default: AUTH_FILE."`
	memory
}

// client returns a client of the orchestrator. Its timeout is twice the orchestrator's, so that the orchestrator's own
// answer comes first. auth are the credentials of AUTH_FILE.
func (d database) client(out *output, auth *httpapi.Credentials) (*dbclient.Client, error) {
	sent, err := d.sent(out, auth)
	if err != nil {
		return nil, err
	}
	db, err := dbclient.New(dbclient.Config{URL: d.OrchestratorURL, Authorization: sent.Authorization, Timeout: 2 * d.CallTimeout, TLS: out.tls})
	if err != nil {
		return nil, usagef("ORCHESTRATOR_URL: %v", err)
	}
	return db, telemetry.Register(out.metrics, system.ClientMetrics(db))
}

// config returns the settings that users and rides share. The caller closes its DB.
func (d database) config(out *output, p process) (service.Config, error) {
	budget, err := d.budget()
	if err != nil {
		return service.Config{}, err
	}
	db, err := d.client(out, p.auth)
	return service.Config{DB: db, Log: p.log, Observe: p.requests.Observe, Metrics: p.metrics, Credentials: p.auth, Budget: budget}, err
}

// sent returns the credentials for the orchestrator, or nil without a file.
func (d database) sent(out *output, auth *httpapi.Credentials) (*httpapi.Credentials, error) {
	setting := "AUTH_FILE"
	if d.ServiceAuthFile != "" {
		var err error
		setting = "SERVICE_AUTH_FILE"
		if auth, err = out.credentials(setting, d.ServiceAuthFile); err != nil {
			return nil, err
		}
	}
	if auth != nil {
		if err := auth.RequireAuthorization(); err != nil {
			return nil, usagef("%s: %v; the orchestrator is called with the first one of SERVICE_AUTH_FILE, or else of AUTH_FILE", setting, err)
		}
	}
	return auth, nil
}

// usersCommand is `rideshare users`.
type usersCommand struct {
	Listen string `default:":9510" placeholder:"ADDR" env:"USERS_LISTEN" help:"Listen address (${default})."`
	database
	common
}

// Run serves until ctx ends.
func (u *usersCommand) Run(ctx context.Context, out *output) error {
	p, err := u.begin(out, "users")
	if err != nil {
		return err
	}
	cfg, err := u.config(out, p)
	if err != nil {
		return err
	}
	defer cfg.DB.Close()
	users := usersapi.New(usersapi.Config{Config: cfg})
	if err = out.follow(ctx, p.log); err != nil {
		return err
	}
	return serve(ctx, out, part{ServerConfig: p.server(out, u.Listen, u.hosts, users.Handler()), close: users.Close})
}

// ridesCommand is `rideshare rides`.
type ridesCommand struct {
	Listen     string `default:":9520" placeholder:"ADDR" env:"RIDES_LISTEN" help:"Listen address (${default})."`
	GatewayURL string `required:"" placeholder:"URL" env:"GATEWAY_URL" help:"Base URL of the gateway, through which users are asked for, or several, separated by commas: the first that answers is used."`
	database
	rideRules `group:"Rides:"`
	common
}

// Run serves until ctx ends.
func (r *ridesCommand) Run(ctx context.Context, out *output) error {
	p, err := r.begin(out, "rides")
	if err != nil {
		return err
	}
	rules, err := r.rules()
	if err != nil {
		return err
	}
	cfg, err := r.config(out, p)
	if err != nil {
		return err
	}
	defer cfg.DB.Close()
	check, err := usercheck.New(usercheck.Config{Gateway: r.GatewayURL, Origin: r.RidesOrigin, Mode: usercheck.Mode(r.RidesUserCheck), TLS: out.tls})
	if err != nil {
		return usagef("GATEWAY_URL: %v", err)
	}
	defer check.Close()
	rides, err := ridesapi.New(ridesapi.Config{Config: cfg, Users: check, Now: rules.now, Location: rules.zone})
	if err != nil {
		return fmt.Errorf("rides: %w", err)
	}
	if err = out.follow(ctx, p.log); err != nil {
		return err
	}
	return serve(ctx, out, part{ServerConfig: p.server(out, r.Listen, r.hosts, rides.Handler()), close: rides.Close})
}

// gatewayCommand is `rideshare gateway`.
type gatewayCommand struct {
	Listen   string   `default:":80" placeholder:"ADDR" env:"GATEWAY_LISTEN" help:"Listen address (${default})."`
	UsersURL []string `required:"" sep:"none" placeholder:"URL" env:"USERS_URL" help:"Base URLs of the users instances, separated by commas."`
	RidesURL []string `required:"" sep:"none" placeholder:"URL" env:"RIDES_URL" help:"Base URLs of the rides instances, separated by commas."`
	Order    string   `default:"round-robin" enum:"round-robin,first" env:"GATEWAY_ORDER" help:"Which of the instances gets a request: round-robin (all in turn) or first (the first of the list that answers; in a cluster, list the instance on the same host first) (${default})."`
	common
}

// Run serves until ctx ends.
func (g *gatewayCommand) Run(ctx context.Context, out *output) error {
	p, err := g.begin(out, "gateway")
	if err != nil {
		return err
	}
	service, err := gateway.New(gateway.Config{Users: elements(g.UsersURL), Rides: elements(g.RidesURL), Order: instances.Order(g.Order), Log: p.log, Observe: p.requests.Observe, TLS: out.tls})
	if err != nil {
		return usagef("%v", err)
	}
	if err = out.follow(ctx, p.log); err != nil {
		return err
	}
	return serve(ctx, out, part{ServerConfig: p.server(out, g.Listen, g.hosts, service.Handler()), close: service.Close})
}
