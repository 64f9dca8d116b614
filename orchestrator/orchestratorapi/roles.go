package orchestratorapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// The kinds of routes, by who may call them.
var (
	everybody = httpapi.Access{Role: httpapi.Open}
	readers   = httpapi.Access{Role: httpapi.Read}
	// viewers need the role of readers. Their routes return no rows, and were open before there were roles.
	viewers  = httpapi.Access{Role: httpapi.Read, OpenBefore: true}
	watchers = httpapi.Access{Role: httpapi.Read, OpenBefore: true, Stream: true}
	streams  = httpapi.Access{Role: httpapi.Read, Stream: true}
	writers  = httpapi.Access{Role: httpapi.Write}
	admins   = httpapi.Access{Role: httpapi.Admin}
)

// access says for each route who may call it. A route that is not here cannot be registered.
var access = map[string]httpapi.Access{
	"GET /livez":              everybody, // probers have no credentials
	"GET /readyz":             everybody,
	"GET /metrics":            everybody,
	"GET /api/v1/worker/list": everybody, // the course's clients have no credentials
	"GET /console/:file":      everybody, // the console holds no data: it asks for credentials and sends them
	"GET /api/v1/whoami":      everybody, // it answers whether the caller's credentials are right
	"GET /console/areas.csv":  everybody,
	"GET /docs/style.css":     everybody, // a browser asks for it without Accept: text/html

	"GET /api/v1/cluster":           viewers,
	"GET /api/v1/scaling/decisions": viewers,
	"GET /status":                   viewers,
	"GET /nodes":                    viewers,
	"GET /api/v1/events":            watchers,

	"GET /":                     readers, // except for browsers, see openToBrowsers
	"GET /openapi.json":         readers, // as GET /
	"GET /docs":                 readers, // as GET /
	"GET /api/v1/settings":      readers,
	"GET /api/v1/live":          streams,
	"GET /api/v1/scaling":       readers,
	"GET /db/query":             readers,
	"POST /db/query":            readers,
	"POST /db/request":          readers, // a reader's request is served as /db/query
	"GET /db/backup":            streams,
	"GET /api/v1/changes":       streams,
	"POST /api/v1/db/read":      readers,
	"GET /api/v1/db/writes/:id": readers,
	"GET /api/v1/cache":         readers,
	"GET /api/v1/admission":     readers,

	"POST /db/execute":      writers,
	"POST /api/v1/db/write": writers,
	"POST /api/v1/db/clear": writers,

	"POST /db/load":             admins,
	"DELETE /api/v1/cache":      admins,
	"PATCH /api/v1/admission":   admins,
	"POST /api/v1/crash/master": admins,
	"POST /api/v1/crash/slave":  admins,
	"POST /api/v1/master":       admins,
	"POST /api/v1/check":        admins,
	"PATCH /api/v1/scaling":     admins,
}

// guarded registers a route for the callers that the table access allows.
func (a *API) guarded(method, pattern string, h echo.HandlerFunc, opts ...httpapi.Option) {
	route := method + " " + pattern
	a.behindGuard[route] = true
	h = a.admitted(route, h)
	a.http.Handle(method, pattern, a.cfg.Credentials.Guard(accessOf(route), h), opts...)
}

// accessOf returns who may call a route. It panics for a route that is not in the table access: such a route would be
// open to everybody by mistake.
func accessOf(route string) httpapi.Access {
	need, ok := access[route]
	if !ok {
		panic(fmt.Sprintf("route %s is not in the table of roles", route))
	}
	return need
}

// checkAccess panics if a route that needs a role is registered without a guard.
func (a *API) checkAccess() {
	for _, route := range a.http.Routes() {
		route = strings.Replace(route, http.MethodHead+" ", http.MethodGet+" ", 1)
		if accessOf(route).Role > httpapi.Open && !a.behindGuard[route] {
			panic(fmt.Sprintf("route %s is not guarded", route))
		}
	}
}
