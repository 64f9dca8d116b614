// Package ridesapi is the HTTP surface of the rides service. It parses requests, calls the rules in package rides, and
// writes answers.
package ridesapi

import (
	"embed"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/service"
	"rideshare/internal/tracing"
	"rideshare/rides"
)

//go:embed openapi.json
var part embed.FS

// Document describes the service's routes.
var Document = service.Document(part)

// Config is the settings of the service. All are required.
type Config struct {
	service.Config

	Users    rides.Users // *usercheck.Client
	Now      func() time.Time
	Location *time.Location
}

// Service is the rides service.
type Service struct {
	*service.Service

	rides *rides.Rides
}

// New returns a running Service. Serve its Handler, and Close it. An error means that the program itself is broken.
func New(cfg Config) (*Service, error) {
	rules, err := rides.New(rides.Config{DB: cfg.DB, Users: cfg.Users, Now: cfg.Now, Location: cfg.Location})
	if err != nil {
		return nil, err
	}
	s := &Service{Service: service.New(tracing.Rides, Document, cfg.Config), rides: rules}
	const all, one = "/api/v1/rides", "/api/v1/rides/:rideId"
	s.HandleRead(all, s.list)
	s.Handle(http.MethodPost, all, s.create)
	s.HandleRead(all+"/count", s.count)
	s.HandleRead(one, s.get)
	s.Handle(http.MethodPost, one, s.join)
	s.Handle(http.MethodDelete, one, s.remove)
	return s, nil
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
