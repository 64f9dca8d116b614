package ridesapi

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/service"
	"rideshare/rides"
)

// upcoming is one ride in the answer of GET /api/v1/rides.
type upcoming struct {
	RideID    int64  `json:"rideId"`
	Username  string `json:"username"`
	Timestamp string `json:"timestamp"`
}

// details is the answer of GET /api/v1/rides/{rideId}.
type details struct {
	RideID      int64    `json:"rideId"`
	CreatedBy   string   `json:"created_by"`
	Users       []string `json:"users"`
	Timestamp   string   `json:"timestamp"`
	Source      int64    `json:"source"`
	Destination int64    `json:"destination"`
	Seats       *int64   `json:"seats,omitempty"`
	SeatsLeft   *int64   `json:"seats_left,omitempty"`
}

func (s *Service) list(c echo.Context) error {
	opts, err := service.ReadOptions(c)
	if err != nil {
		return err
	}
	source, destination, err := route(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	list := httpapi.NewArray(c)
	seq, err := s.rides.Upcoming(c.Request().Context(), opts, source, destination, func(seq dbaas.Seq, r rides.Upcoming) error {
		httpapi.SetSeq(c, seq)
		return list.Add(upcoming{RideID: r.ID, Username: r.CreatedBy, Timestamp: r.Timestamp})
	})
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return list.End()
}

// route reads source and destination, each exactly once, from a query.
func route(query string) (source, destination rides.Area, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, 0, dbaas.WrapError(dbaas.CodeInvalid, "the query is malformed", err)
	}
	for name, area := range map[string]*rides.Area{"source": &source, "destination": &destination} {
		if len(values[name]) != 1 {
			return 0, 0, dbaas.Errorf(dbaas.CodeInvalid, "%s must be given exactly once", name)
		}
		if *area, err = rides.ParseArea(values[name][0]); err != nil {
			return 0, 0, err
		}
	}
	return source, destination, nil
}

func (s *Service) get(c echo.Context) error {
	id, err := rideID(c)
	if err != nil {
		return err
	}
	opts, err := service.ReadOptions(c)
	if err != nil {
		return err
	}
	ride, seq, err := s.rides.Get(c.Request().Context(), opts, id)
	httpapi.SetSeq(c, seq)
	switch {
	case err != nil:
		return err
	case ride == nil:
		return c.NoContent(http.StatusNoContent)
	}
	answer := details{
		RideID: ride.ID, CreatedBy: ride.CreatedBy, Users: ride.Riders, Timestamp: ride.Timestamp,
		Source: ride.Source, Destination: ride.Destination, Seats: ride.Seats,
	}
	if ride.Seats != nil {
		left := *ride.Seats - int64(len(ride.Riders))
		answer.SeatsLeft = &left
	}
	return httpapi.JSONExactly(c, http.StatusOK, answer)
}

func (s *Service) count(c echo.Context) error {
	opts, err := service.ReadOptions(c)
	if err != nil {
		return err
	}
	n, seq, err := s.rides.Count(c.Request().Context(), opts)
	httpapi.SetSeq(c, seq)
	if err != nil {
		return err
	}
	return httpapi.JSONExactly(c, http.StatusOK, []int64{n})
}

// parseID reads the digits of a positive integer that fits a row id. It accepts only the form that strconv writes: no
// sign, no leading zero.
func parseID(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0 && strconv.FormatInt(id, 10) == text
}
