// Package service is what users and rides share: the settings, the request counter, and the routes for the counter,
// clearing the database, health, metrics, and the empty answer at / for load balancers.
package service

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/apidoc"
	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/service/apicount"
)

//go:embed openapi.json
var sharedPart embed.FS

// Document returns the OpenAPI document of a service, whose own routes are in part.
func Document(part embed.FS) *apidoc.Document { return apidoc.New(part, sharedPart) }

// Config is the settings that both services have. DB and Log are required.
type Config struct {
	DB  *dbclient.Client
	Log *slog.Logger
	// Observe is called for each request; see httpapi.Config.
	Observe func(route, method string, status int, took time.Duration, trace string)
	Metrics http.Handler // of /metrics; nil: no such route
	// Budget bounds the memory of all requests together; see httpapi.Config.
	Budget *httpapi.Budget
	// Credentials guard the routes that delete data, which need the role write; nil leaves them open, as the course's
	// clients require.
	Credentials *httpapi.Credentials
}

// Service is a running service with the shared routes.
type Service struct {
	name    string
	cfg     Config
	api     *httpapi.API
	counter *apicount.Counter
}

// New returns a service with the shared routes. name is "users" or "rides", in paths, keys and the table apicount. Add the other
// routes with Handle.
func New(name string, document *apidoc.Document, cfg Config) *Service {
	s := &Service{
		name: name, cfg: cfg,
		api:     httpapi.New(httpapi.Config{Log: cfg.Log, Part: name, Observe: cfg.Observe, Budget: cfg.Budget}),
		counter: apicount.New(apicount.Config{Service: name, DB: cfg.DB, Log: cfg.Log}),
	}
	write := httpapi.Access{Role: httpapi.Write}
	s.Handle(http.MethodGet, "/", func(c echo.Context) error { return httpapi.Empty(c, http.StatusOK) })
	// Older clients call through the gateway, which only knows the longer path.
	for _, path := range []string{"/api/v1/_count", "/api/v1/" + name + "/_count"} {
		s.Handle(http.MethodGet, path, s.count, httpapi.EmptyErrorBodies())
		s.Handle(http.MethodDelete, path, cfg.Credentials.Guard(write, s.reset), httpapi.EmptyErrorBodies())
	}
	s.Handle(http.MethodPost, "/api/v1/db/clear", cfg.Credentials.Guard(write, s.clear), httpapi.EmptyErrorBodies())
	s.api.HandleHealth(cfg.DB.Ready, cfg.Metrics)
	document.Register(s.api)
	return s
}

// Handle adds a route.
func (s *Service) Handle(method, path string, h echo.HandlerFunc, opts ...httpapi.Option) {
	s.api.Handle(method, path, h, opts...)
}

// HandleRead adds a GET route whose requests are counted and whose error bodies are {}.
func (s *Service) HandleRead(path string, h echo.HandlerFunc) {
	s.Handle(http.MethodGet, path, h, httpapi.EmptyErrorBodies(), httpapi.OnRequest(s.counter.Add))
}

// Handler returns the service's HTTP handler.
func (s *Service) Handler() http.Handler { return s.api }

// Close writes the pending request counts. Stop serving first. Counts that the database has not accepted when ctx ends
// are lost.
func (s *Service) Close(ctx context.Context) error {
	_ = s.counter.Close(ctx) // it has logged what is lost; shutdown does not fail because of that
	return nil
}

func (s *Service) count(c echo.Context) error {
	opts, err := ReadOptions(c)
	if err != nil {
		return err
	}
	n, seq, err := s.counter.Value(c.Request().Context(), opts.MinSeq)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.JSONExactly(c, http.StatusOK, []int64{n})
}

func (s *Service) reset(c echo.Context) error {
	opts, err := s.WriteOptions(c, nil)
	if err != nil {
		return err
	}
	seq, err := s.counter.Reset(c.Request().Context(), opts.Key)
	return Written(c, http.StatusOK, seq, err)
}

func (s *Service) clear(c echo.Context) error {
	opts, err := s.WriteOptions(c, nil)
	if err != nil {
		return err
	}
	ans, err := s.cfg.DB.Clear(c.Request().Context(), opts)
	return Written(c, http.StatusOK, ans.Seq, err)
}

// Written answers a write at position seq: err, or a status with an empty object.
func Written(c echo.Context, status int, seq dbaas.Seq, err error) error {
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, status)
}

// ReadOptions returns the options of a read without a body: the position that the client wants to see. A malformed
// position is CodeInvalid.
func ReadOptions(c echo.Context) (dbclient.Options, error) {
	minSeq, err := httpapi.MinSeq(c)
	if err == nil {
		err = httpapi.NoBody(c)
	}
	return dbclient.Options{MinSeq: minSeq}, err
}

// WriteOptions returns the options of a write: the position for the reads before it, and the client's Idempotency-Key,
// scoped to service, caller, method and path. It decodes the request's JSON into body; if body is nil, the request must
// have none. Malformed headers are CodeInvalid; CodeUnavailable means that too many passwords wait to be checked.
func (s *Service) WriteOptions(c echo.Context, body any) (opts dbclient.Options, err error) {
	if opts.MinSeq, err = httpapi.MinSeq(c); err != nil {
		return opts, err
	}
	key, err := httpapi.IdempotencyKey(c)
	if err != nil {
		return opts, err
	}
	if key != "" {
		r := c.Request()
		caller, err := s.cfg.Credentials.Caller(r)
		if err != nil {
			return opts, err
		}
		opts.Key = httpapi.KeyScope{Service: s.name, Caller: caller, Method: r.Method, Path: r.URL.EscapedPath()}.Key(key)
	}
	if body == nil {
		return opts, httpapi.NoBody(c)
	}
	return opts, httpapi.DecodeJSON(c, body)
}
