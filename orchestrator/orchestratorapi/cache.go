package orchestratorapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// headerCache says where the answer to a read came from.
const headerCache = "X-Cache"

// Cache is what this package needs of the read cache.
type Cache interface {
	// Answered counts a read that was answered 200, by its level.
	Answered(level dbaas.CacheLevel)
	// Status returns what GET /api/v1/cache shows, to be rendered as JSON.
	Status() any
	// Clear removes all answers.
	Clear()
}

func (a *API) cacheRoutes() {
	if a.cfg.Cache == nil {
		return
	}
	a.guarded(http.MethodGet, "/api/v1/cache", func(c echo.Context) error { return httpapi.JSON(c, http.StatusOK, a.cfg.Cache.Status()) })
	a.guarded(http.MethodDelete, "/api/v1/cache", func(c echo.Context) error {
		a.cfg.Cache.Clear()
		return httpapi.Empty(c, http.StatusOK)
	})
}

// dispatch runs a read. If that succeeds, it reserves room in the budget for the answer, which fails safely since a read
// may be retried, sets the headers of the answer, and counts the read by its level.
func (a *API) dispatch(c echo.Context, read dbaas.Read) (dbaas.ReadResult, error) {
	a.cfg.OnRead()
	r, err := a.cfg.Dispatcher.Read(c.Request().Context(), read)
	if err == nil && len(r.Body) > largeAnswer {
		err = httpapi.Hold(c.Request().Context(), int64(len(r.Body)))
	}
	if err != nil {
		return r, err
	}
	httpapi.SetSeq(c, r.Seq)
	if a.cfg.Cache != nil && r.Level != dbaas.LevelOff {
		c.Response().Header().Set(headerCache, string(r.Level))
		a.cfg.Cache.Answered(r.Level)
	}
	return r, nil
}

// cacheUse reads Cache-Control: no-store bypasses the cache; no-cache asks a worker and caches the answer. Other
// directives have no meaning here.
func cacheUse(r *http.Request) dbaas.CacheUse {
	use := dbaas.CacheUseful
	for _, line := range r.Header["Cache-Control"] {
		for part := range strings.SplitSeq(line, ",") {
			switch strings.ToLower(strings.TrimSpace(part)) {
			case "no-store":
				return dbaas.CacheNone
			case "no-cache":
				use = dbaas.CacheRefresh
			}
		}
	}
	return use
}
