package orchestratorapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// speaksRqlite reports whether a path is one of rqlite's HTTP API.
func speaksRqlite(path string) bool {
	return strings.HasPrefix(path, "/db/") || path == "/status" || path == "/nodes" || path == "/readyz"
}

// answerOptions makes OPTIONS 200 on the routes of rqlite's HTTP API, without credentials: browsers ask without.
func (a *API) answerOptions() {
	for _, route := range a.http.Routes() {
		if method, pattern, _ := strings.Cut(route, " "); method != http.MethodHead && speaksRqlite(pattern) {
			a.http.Handle(http.MethodOptions, pattern, func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		}
	}
}

// addRqliteHeaders adds what every answer of rqlite's HTTP API has: the version, and which requests the scripts of other
// sites may send.
func (a *API) addRqliteHeaders(h http.Header) {
	h.Set("X-Rqlite-Version", a.cfg.Version)
	h.Set(echo.HeaderAccessControlAllowMethods, "OPTIONS, GET, POST")
	h.Set(echo.HeaderAccessControlAllowHeaders, "Content-Type, Authorization")
	if a.cfg.AllowOrigin != "" {
		h.Set(echo.HeaderAccessControlAllowOrigin, a.cfg.AllowOrigin)
	}
}
