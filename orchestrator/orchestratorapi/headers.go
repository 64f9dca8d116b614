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

// answerOptions answers OPTIONS on the routes of rqlite's HTTP API with 200. It asks for no credentials, since browsers
// send none with OPTIONS.
func (a *API) answerOptions() {
	for _, route := range a.http.Routes() {
		if method, pattern, _ := strings.Cut(route, " "); method != http.MethodHead && speaksRqlite(pattern) {
			a.http.Handle(http.MethodOptions, pattern, func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		}
	}
}

// AddHeaders adds to h the headers of every answer at a path of rqlite's HTTP API: the version, and which requests
// scripts of other sites may send. It adds nothing for other paths.
func (a *API) AddHeaders(h http.Header, path string) {
	if !speaksRqlite(path) {
		return
	}
	h.Set("X-Rqlite-Version", a.cfg.Version)
	h.Set(echo.HeaderAccessControlAllowMethods, "OPTIONS, GET, POST")
	h.Set(echo.HeaderAccessControlAllowHeaders, "Content-Type, Authorization")
	if a.cfg.AllowOrigin != "" {
		h.Set(echo.HeaderAccessControlAllowOrigin, a.cfg.AllowOrigin)
	}
}
