// Package usersapi is the HTTP surface of the users service. It parses requests, calls the rules in package users, and
// writes answers.
package usersapi

import (
	"embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/passhash"
	"rideshare/internal/service"
	"rideshare/internal/tracing"
	"rideshare/users"
)

//go:embed openapi.json
var part embed.FS

// Document describes the service's routes.
var Document = service.Document(part)

// Config is the settings of the service.
type Config struct {
	service.Config

	Cost passhash.Cost // of a password hash; zero means passhash.DefaultCost
}

// Service is the users service.
type Service struct {
	*service.Service

	users *users.Users
	db    *dbclient.Client
}

// New returns a running Service. Serve its Handler, and Close it.
func New(cfg Config) *Service {
	s := &Service{
		Service: service.New(tracing.Users, Document, cfg.Config),
		db:      cfg.DB,
		users:   users.New(cfg.DB, users.NewHasher(cfg.Cost)),
	}
	const all, one = "/api/v1/users", "/api/v1/users/:username"
	s.HandleRead(all, s.list)
	s.Handle(http.MethodPut, all, s.create)
	s.HandleRead(one, s.get)
	s.Handle(http.MethodDelete, one, s.remove)
	return s
}

// newUser is the body of PUT /api/v1/users.
type newUser struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (s *Service) create(c echo.Context) error {
	var body newUser
	opts, err := s.WriteOptions(c, &body)
	if err != nil {
		return err
	}
	seq, err := s.users.Create(c.Request().Context(), opts, body.Username, body.Password)
	return service.Written(c, http.StatusCreated, seq, err)
}

func (s *Service) remove(c echo.Context) error {
	opts, err := s.WriteOptions(c, nil)
	if err != nil {
		return err
	}
	seq, err := s.users.Delete(c.Request().Context(), opts, httpapi.Param(c, "username"))
	return service.Written(c, http.StatusOK, seq, err)
}

func (s *Service) list(c echo.Context) error {
	opts, err := service.ReadOptions(c)
	if err != nil {
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
