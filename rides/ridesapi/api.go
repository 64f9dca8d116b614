// Package ridesapi is the HTTP surface of the rides service. It parses requests, calls the rules in package rides, and
// writes answers.
package ridesapi

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/service"
	"rideshare/internal/service/apicount"
	"rideshare/internal/tracing"
	"rideshare/rides"
)

// serviceName is the service's name in keys and in the table apicount.
const serviceName = "rides"

//go:embed openapi.json
var part embed.FS

// Document describes the service's routes.
var Document = service.Document(part)

// Config is what the service needs. DB, Users, Now, Location and Log are required.
type Config struct {
	DB       *dbclient.Client
	Users    rides.Users // *usercheck.Client
	Now      func() time.Time
	Location *time.Location
	Log      *slog.Logger
	// Observe is called for each request; see httpapi.Config.
	Observe func(route, method string, status int, took time.Duration, trace string)
	Metrics http.Handler // of /metrics; nil: no such route
	// Budget bounds the memory of all requests together; see httpapi.Config.
	Budget *httpapi.Budget
	// Credentials guard db/clear and the reset of the counter; nil leaves them open.
	Credentials *httpapi.Credentials
}

// Service is the rides service.
type Service struct {
	api     *httpapi.API
	counter *apicount.Counter
	rides   *rides.Rides
	creds   *httpapi.Credentials
}

// New returns a running Service. Serve its Handler, and Close it. An error means that the program itself is broken.
func New(cfg Config) (*Service, error) {
	rules, err := rides.New(rides.Config{DB: cfg.DB, Users: cfg.Users, Now: cfg.Now, Location: cfg.Location})
	if err != nil {
		return nil, err
	}
	s := &Service{
		api:     httpapi.New(httpapi.Config{Log: cfg.Log, Part: tracing.Rides, Observe: cfg.Observe, Budget: cfg.Budget}),
		counter: apicount.New(apicount.Config{Service: serviceName, DB: cfg.DB, Log: cfg.Log}),
		creds:   cfg.Credentials,
		rides:   rules,
	}
	service.Register(s.api, service.Config{Service: serviceName, DB: cfg.DB, Counter: s.counter, Credentials: cfg.Credentials, Metrics: cfg.Metrics, Document: Document})
	const all, one = "/api/v1/rides", "/api/v1/rides/:rideId"
	counted := httpapi.OnRequest(s.counter.Add)
	s.api.Handle(http.MethodGet, all, s.list, httpapi.EmptyErrorBodies(), counted)
	s.api.Handle(http.MethodPost, all, s.create)
	s.api.Handle(http.MethodGet, all+"/count", s.count, httpapi.EmptyErrorBodies(), counted)
	s.api.Handle(http.MethodGet, one, s.get, httpapi.EmptyErrorBodies(), counted)
	s.api.Handle(http.MethodPost, one, s.join)
	s.api.Handle(http.MethodDelete, one, s.remove)
	return s, nil
}

// Handler returns the service's HTTP handler.
func (s *Service) Handler() http.Handler { return s.api }

// Close writes the pending request counts. Stop serving first. Counts that the database has not accepted when ctx ends
// are lost.
func (s *Service) Close(ctx context.Context) error {
	_ = s.counter.Close(ctx) // it has logged what is lost; shutdown does not fail because of that
	return nil
}

// rideID returns the id in the path. It returns CodeNotFound unless the id is a positive integer in plain decimal
// digits.
func rideID(c echo.Context) (int64, error) {
	text := httpapi.Param(c, "rideId")
	id, ok := parseID(text)
	if !ok {
		return 0, dbaas.Errorf(dbaas.CodeNotFound, "a ride's id is a positive integer")
	}
	return id, nil
}
