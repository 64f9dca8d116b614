package orchestratorapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// checkRoutes registers the check of the running system. The method is POST, since a crawler must
// not run the check: it reads the whole database and makes a worker rebuild a replica that differs.
func (a *API) checkRoutes() {
	if a.cfg.Invariants != nil {
		a.guarded(http.MethodPost, "/api/v1/check", a.check)
	}
}

// check answers POST /api/v1/check: 200 with the report, whether the invariants
// hold or not, and 409 while another check runs. A body is ignored.
func (a *API) check(c echo.Context) error {
	report, err := a.cfg.Invariants(c.Request().Context())
	if err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusOK, report)
}
