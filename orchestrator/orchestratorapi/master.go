package orchestratorapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/strictjson"
)

// HandedOver is the answer of POST /api/v1/master: the previous and the new master.
type HandedOver struct {
	Old Leadership `json:"old"`
	New Leadership `json:"new"`
}

// Leadership is a master and its epoch.
type Leadership struct {
	PID   int         `json:"pid"`
	Epoch dbaas.Epoch `json:"epoch"`
}

// handOverBody is the body of POST /api/v1/master, which may be empty.
type handOverBody struct {
	PID int `json:"pid,omitempty"`
	// Epoch, unless zero, is the epoch that the present master must have.
	Epoch dbaas.Epoch `json:"epoch,omitempty"`
}

// handOver answers POST /api/v1/master once the role has moved to the slave with the given pid, or, without a pid, to
// the slave with the lowest pid.
func (a *API) handOver(c echo.Context) error {
	body, err := httpapi.ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	var wish handOverBody
	if len(body) > 0 {
		if err = strictjson.Unmarshal(body, &wish); err != nil {
			return err
		}
	}
	if wish.PID < 0 {
		return dbaas.Errorf(dbaas.CodeInvalid, "pid must be positive")
	}
	done, err := a.cfg.Cluster.HandOver(c.Request().Context(), wish.PID, dbaas.Seen{Epoch: wish.Epoch})
	if err != nil {
		return outage(err)
	}
	return httpapi.JSON(c, http.StatusOK, done)
}
