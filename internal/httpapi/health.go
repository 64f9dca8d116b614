package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// readyTimeout bounds a readiness check: it must answer before the prober gives up.
const readyTimeout = 2 * time.Second

// HandleHealth registers /livez (the process answers), /readyz (ready returned nil; otherwise the answer is its
// error) and, if metrics is not nil, /metrics.
func (a *API) HandleHealth(ready func(context.Context) error, metrics http.Handler) {
	a.HandleProbes(func(r *http.Request) error { return ready(r.Context()) }, metrics)
}

// HandleProbes is HandleHealth for a part whose /readyz has options.
func (a *API) HandleProbes(ready func(*http.Request) error, metrics http.Handler) {
	a.Handle(http.MethodGet, "/livez", func(c echo.Context) error { return Empty(c, http.StatusOK) })
	a.Handle(http.MethodGet, "/readyz", func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
		defer cancel()
		if err := ready(c.Request().WithContext(ctx)); err != nil {
			return err
		}
		return Empty(c, http.StatusOK)
	})
	if metrics != nil {
		a.HandleHTTP(http.MethodGet, "/metrics", metrics)
	}
}
