// Package service has the routes that users and rides share: the request counter, clearing the database, health,
// metrics, and the empty answer at / for load balancers.
package service

import (
	"context"
	"embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/apidoc"
	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
)

//go:embed openapi.json
var sharedPart embed.FS

// Document returns the OpenAPI document of a service, whose own routes are in part.
func Document(part embed.FS) *apidoc.Document { return apidoc.New(part, sharedPart) }

// Counter counts the service's requests. *apicount.Counter implements it.
type Counter interface {
	Value(ctx context.Context, minSeq dbaas.Seq) (int64, dbaas.Seq, error)
	Reset(ctx context.Context, key string) (dbaas.Seq, error)
}

// DB is the part of the database client that the shared routes need. *dbclient.Client implements it.
type DB interface {
	Clear(ctx context.Context, opts dbclient.Options) (dbclient.Answer, error)
	Ready(ctx context.Context) error
}

// Config is the settings of the shared routes. All fields except Credentials and Metrics are required.
type Config struct {
	Service string // "users" or "rides"
	DB      DB
	Counter Counter
	// Credentials guard the routes that delete data, which need the role write; nil leaves them open, as the course's
	// clients require.
	Credentials *httpapi.Credentials
	Metrics     http.Handler // nil: no /metrics
	Document    *apidoc.Document
}

type shared struct{ cfg Config }

// Register adds the shared routes to a.
func Register(a *httpapi.API, cfg Config) {
	s := shared{cfg}
	write := httpapi.Access{Role: httpapi.Write}
	a.Handle(http.MethodGet, "/", func(c echo.Context) error { return httpapi.Empty(c, http.StatusOK) })
	// Older clients call through the gateway, which only knows the longer path.
	for _, path := range []string{"/api/v1/_count", "/api/v1/" + cfg.Service + "/_count"} {
		a.Handle(http.MethodGet, path, s.count, httpapi.EmptyErrorBodies())
		a.Handle(http.MethodDelete, path, cfg.Credentials.Guard(write, s.reset), httpapi.EmptyErrorBodies())
	}
	a.Handle(http.MethodPost, "/api/v1/db/clear", cfg.Credentials.Guard(write, s.clear), httpapi.EmptyErrorBodies())
	a.HandleHealth(cfg.DB.Ready, cfg.Metrics)
	cfg.Document.Register(a)
}

func (s shared) count(c echo.Context) error {
	opts, err := ReadOptions(c)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	n, seq, err := s.cfg.Counter.Value(c.Request().Context(), opts.MinSeq)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.JSONExactly(c, http.StatusOK, []int64{n})
}

func (s shared) reset(c echo.Context) error {
	opts, err := WriteOptions(c, s.cfg.Service, s.cfg.Credentials)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	seq, err := s.cfg.Counter.Reset(c.Request().Context(), opts.Key)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, http.StatusOK)
}

func (s shared) clear(c echo.Context) error {
	opts, err := WriteOptions(c, s.cfg.Service, s.cfg.Credentials)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	ans, err := s.cfg.DB.Clear(c.Request().Context(), opts)
	httpapi.SetSeq(c, ans.Seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, http.StatusOK)
}

// ReadOptions returns the options of a read: the position that the client wants to see. A malformed position is
// CodeInvalid.
func ReadOptions(c echo.Context) (dbclient.Options, error) {
	minSeq, err := httpapi.MinSeq(c)
	return dbclient.Options{MinSeq: minSeq}, err
}

// WriteOptions returns the options of a write: the position for the reads before it, and the client's
// Idempotency-Key, scoped to service, caller, method and path. Malformed headers are CodeInvalid; CodeUnavailable means
// that too many passwords wait to be checked.
func WriteOptions(c echo.Context, service string, creds *httpapi.Credentials) (dbclient.Options, error) {
	opts, err := ReadOptions(c)
	if err != nil {
		return opts, err
	}
	key, err := httpapi.IdempotencyKey(c)
	if err != nil {
		return opts, err
	}
	if key == "" {
		return opts, nil
	}
	r := c.Request()
	caller, err := creds.Caller(r)
	opts.Key = httpapi.KeyScope{Service: service, Caller: caller, Method: r.Method, Path: r.URL.EscapedPath()}.Key(key)
	return opts, err
}
