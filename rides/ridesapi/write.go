package ridesapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/service"
	"rideshare/rides"
)

// newRide is the body of POST /api/v1/rides.
type newRide struct {
	CreatedBy   string     `json:"created_by"`
	Timestamp   string     `json:"timestamp"`
	Source      rides.Area `json:"source"`
	Destination rides.Area `json:"destination"`
	Seats       *int64     `json:"seats,omitempty"`
}

// rider is the body of POST /api/v1/rides/{rideId}.
type rider struct {
	Username string `json:"username"`
}

func (s *Service) create(c echo.Context) error {
	opts, err := service.WriteOptions(c, serviceName, s.creds)
	if err != nil {
		return err
	}
	var body newRide
	if err = httpapi.DecodeJSON(c, &body); err != nil {
		return err
	}
	id, seq, err := s.rides.Create(c.Request().Context(), opts, rides.NewRide(body))
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/rides/"+strconv.FormatInt(id, 10))
	return httpapi.Empty(c, http.StatusCreated)
}

func (s *Service) join(c echo.Context) error {
	id, err := rideID(c)
	if err != nil {
		return err
	}
	opts, err := service.WriteOptions(c, serviceName, s.creds)
	if err != nil {
		return err
	}
	var body rider
	if err = httpapi.DecodeJSON(c, &body); err != nil {
		return err
	}
	seq, err := s.rides.Join(c.Request().Context(), opts, id, body.Username)
	httpapi.SetSeq(c, seq)
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeNotFound: // The course's answer for a ride that does not exist.
		return c.NoContent(http.StatusNoContent)
	case err != nil:
		return err
	}
	return httpapi.Empty(c, http.StatusOK)
}

func (s *Service) remove(c echo.Context) error {
	id, err := rideID(c)
	if err != nil {
		return err
	}
	opts, err := service.WriteOptions(c, serviceName, s.creds)
	if err != nil {
		return err
	}
	if err = httpapi.NoBody(c); err != nil {
		return err
	}
	seq, err := s.rides.Delete(c.Request().Context(), opts, id)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.Empty(c, http.StatusOK)
}
