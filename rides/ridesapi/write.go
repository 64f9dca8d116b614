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
	var body newRide
	opts, err := s.WriteOptions(c, &body)
	if err != nil {
		return err
	}
	id, seq, err := s.rides.Create(c.Request().Context(), opts, rides.NewRide(body))
	if err == nil {
		c.Response().Header().Set(echo.HeaderLocation, "/api/v1/rides/"+strconv.FormatInt(id, 10))
	}
	return service.Written(c, http.StatusCreated, seq, err)
}

func (s *Service) join(c echo.Context) error {
	id, err := rideID(c)
	if err != nil {
		return err
	}
	var body rider
	opts, err := s.WriteOptions(c, &body)
	if err != nil {
		return err
	}
	seq, err := s.rides.Join(c.Request().Context(), opts, id, body.Username)
	if dbaas.CodeOf(err) == dbaas.CodeNotFound { // The course's answer for a ride that does not exist.
		httpapi.SetSeq(c, seq)
		return c.NoContent(http.StatusNoContent)
	}
	return service.Written(c, http.StatusOK, seq, err)
}

func (s *Service) remove(c echo.Context) error {
	id, err := rideID(c)
	if err != nil {
		return err
	}
	opts, err := s.WriteOptions(c, nil)
	if err != nil {
		return err
	}
	seq, err := s.rides.Delete(c.Request().Context(), opts, id)
	return service.Written(c, http.StatusOK, seq, err)
}
