package orchestratorapi

import (
	_ "embed" // for the console's page.
	"net/http"

	"github.com/labstack/echo/v4"
)

//go:embed console.html
var consolePage []byte

// console answers GET / with a page that describes the service and its routes.
func console(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return c.HTMLBlob(http.StatusOK, consolePage)
}
