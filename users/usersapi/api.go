// Package usersapi is the HTTP surface of the users service. It parses requests, calls the rules in package users, and
// writes answers.
package usersapi

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
	"rideshare/internal/passhash"
	"rideshare/internal/service"
	"rideshare/internal/service/apicount"
	"rideshare/internal/tracing"
	"rideshare/users"
)

// serviceName is the service's name in keys and in the table apicount.
const serviceName = "users"

//go:embed openapi.json
var part embed.FS

// Document describes the service's routes.
var Document = service.Document(part)

// Config is what the service needs. DB and Log are required.
type Config struct {
	DB  *dbclient.Client
	Log *slog.Logger
	// Observe is called for each request; see httpapi.Config.
	Observe func(route, method string, status int, took time.Duration, trace string)
	Metrics http.Handler // of /metrics; nil: no such route
	// Budget bounds the memory of all requests together; see httpapi.Config.
	Budget *httpapi.Budget
	// Credentials guard db/clear and the reset of the counter; nil leaves them open.
	Credentials *httpapi.Credentials
	Cost        passhash.Cost // of a password hash; zero means passhash.DefaultCost
}

// Service is the users service.
type Service struct {
	api     *httpapi.API
	counter *apicount.Counter
	users   *users.Users
	db      users.Lister
	creds   *httpapi.Credentials
}

// New returns a running Service. Serve its Handler, and Close it.
func New(cfg Config) *Service {
	s := &Service{
		api:     httpapi.New(httpapi.Config{Log: cfg.Log, Part: tracing.Users, Observe: cfg.Observe, Budget: cfg.Budget}),
		counter: apicount.New(apicount.Config{Service: serviceName, DB: cfg.DB, Log: cfg.Log}),
		db:      cfg.DB,
		creds:   cfg.Credentials,
		users:   users.New(cfg.DB, users.NewHasher(cfg.Cost)),
	}
	service.Register(s.api, service.Config{Service: serviceName, DB: cfg.DB, Counter: s.counter, Credentials: cfg.Credentials, Metrics: cfg.Metrics, Document: Document})
	const all, one = "/api/v1/users", "/api/v1/users/:username"
	counted := httpapi.OnRequest(s.counter.Add)
	s.api.Handle(http.MethodGet, all, s.list, httpapi.EmptyErrorBodies(), counted)
	s.api.Handle(http.MethodPut, all, s.create)
	s.api.Handle(http.MethodGet, one, s.get, httpapi.EmptyErrorBodies(), counted)
	s.api.Handle(http.MethodDelete, one, s.remove)
	return s
}

// Handler returns the service's HTTP handler.
func (s *Service) Handler() http.Handler { return s.api }

// Close writes the pending request counts. Stop serving first. Counts that the database has not accepted when ctx ends
// are lost.
func (s *Service) Close(ctx context.Context) error {
	_ = s.counter.Close(ctx) // it has logged what is lost; shutdown does not fail because of that
	return nil
}

// newUser is the body of PUT /api/v1/users.
type newUser struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (s *Service) create(c echo.Context) error {
	opts, err := service.WriteOptions(c, serviceName, s.creds)
	if err != nil {
		return err
	}
	var body newUser
	if err = httpapi.DecodeJSON(c, &body); err != nil {
		return err
	}
	seq, err := s.users.Create(c.Request().Context(), opts, body.Username, body.Password)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, http.StatusCreated)
}

func (s *Service) remove(c echo.Context) error {
	opts, err := service.WriteOptions(c, serviceName, s.creds)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	seq, err := s.users.Delete(c.Request().Context(), opts, httpapi.Param(c, "username"))
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, http.StatusOK)
}

func (s *Service) list(c echo.Context) error {
	opts, err := service.ReadOptions(c)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	list := httpapi.NewArray(c)
	seq, err := users.List(c.Request().Context(), s.db, opts, func(seq dbaas.Seq, name string) error {
		httpapi.SetSeq(c, seq)
		return list.Add(name)
	})
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return list.End()
}

// user is the answer of GET /api/v1/users/{username}.
type user struct {
	Username string `json:"username"`
}

func (s *Service) get(c echo.Context) error {
	opts, err := service.ReadOptions(c)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	name := httpapi.Param(c, "username")
	found, seq, err := s.users.Exists(c.Request().Context(), opts, name)
	httpapi.SetSeq(c, seq)
	switch {
	case err != nil:
		return err
	case !found:
		return dbaas.Errorf(dbaas.CodeNotFound, "no such user")
	}
	return httpapi.JSONExactly(c, http.StatusOK, user{Username: name})
}
