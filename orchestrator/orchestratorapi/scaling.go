package orchestratorapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
	"rideshare/internal/strictjson"
	"rideshare/orchestrator/scale"
)

// Scaling is what this package needs from the scaler. *scale.Scaler implements it.
type Scaling interface {
	Current(ctx context.Context) (scale.Current, error)
	Apply(ctx context.Context, change scale.Change, dry bool) (scale.Current, []scale.Would, error)
}

func (a *API) scalingRoutes() {
	if a.cfg.Scaling == nil {
		return
	}
	a.guarded(http.MethodGet, "/api/v1/scaling", func(c echo.Context) error {
		now, err := a.cfg.Scaling.Current(c.Request().Context())
		if err != nil {
			return err
		}
		return httpapi.JSON(c, http.StatusOK, now)
	})
	a.guarded(http.MethodPatch, "/api/v1/scaling", a.changeScaling)
}

// scalingChanged is the answer of PATCH /api/v1/scaling.
type scalingChanged struct {
	Settings scale.Current `json:"settings"`
	Changed  bool          `json:"changed"` // false for a dry run
	Would    []scale.Would `json:"would"`
}

// changeScaling changes the policy and its limits. With the option dry_run it only reports what the new settings would
// have decided.
func (a *API) changeScaling(c echo.Context) error {
	body, err := httpapi.ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	var change scale.Change
	if err = strictjson.Unmarshal(body, &change); err != nil {
		return err
	}
	given, err := httpapi.Query(c.Request().URL) // without a malformed dry_run the change would be made
	if err != nil {
		return err
	}
	dry := given.Has("dry_run")
	now, would, err := a.cfg.Scaling.Apply(c.Request().Context(), change, dry)
	if err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusOK, scalingChanged{Settings: now, Changed: !dry, Would: would})
}
