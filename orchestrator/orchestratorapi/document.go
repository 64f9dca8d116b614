package orchestratorapi

import (
	"embed"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/apidoc"
)

//go:embed openapi
var parts embed.FS

// Document describes the routes.
var Document = apidoc.New(parts)

// documentRoutes registers the document and its page.
func (a *API) documentRoutes() {
	a.openToBrowsers(apidoc.PathJSON, func(c echo.Context) error { return Document.ServeJSON(c.Response(), c.Request()) })
	a.openToBrowsers(apidoc.PathPage, func(c echo.Context) error { return Document.ServePage(c.Response(), c.Request()) })
	a.http.HandleFunc(http.MethodGet, apidoc.PathStyle, apidoc.ServeStyle)
}

// openToBrowsers registers a GET route that holds no data. A browser gets it without credentials; other clients need the
// route's role.
func (a *API) openToBrowsers(pattern string, h echo.HandlerFunc) {
	route := http.MethodGet + " " + pattern
	guarded := a.cfg.Credentials.Guard(accessOf(route), h)
	a.behindGuard[route] = true
	a.http.Handle(http.MethodGet, pattern, func(c echo.Context) error {
		if strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
			return h(c)
		}
		return guarded(c)
	})
}
