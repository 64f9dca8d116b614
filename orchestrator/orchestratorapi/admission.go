package orchestratorapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
	"rideshare/orchestrator/admission"
)

// classOf has the routes that are limited, each with the function that returns the class of a request. The class is
// determined before the body is read, so /db/request is a write even if the body turns out to have only reads. All other
// routes are never refused under overload.
var classOf = map[string]func(echo.Context) admission.Class{
	"POST /api/v1/db/read":  func(echo.Context) admission.Class { return admission.Read },
	"GET /db/query":         func(echo.Context) admission.Class { return admission.Read },
	"POST /db/query":        func(echo.Context) admission.Class { return admission.Read },
	"POST /db/request":      requestClass,
	"POST /db/execute":      writeClass,
	"POST /api/v1/db/write": writeClass,
	"POST /api/v1/db/clear": writeClass,
}

// requestClass returns the class of a request to /db/request, where queue has no effect: Read if the caller may only read.
func requestClass(c echo.Context) admission.Class {
	switch {
	case httpapi.RoleOf(c.Request().Context()) < httpapi.Write:
		return admission.Read
	case wantsAsync(c):
		return admission.Async
	default:
		return admission.Write
	}
}

// writeClass returns Async for a write whose client does not wait for its result, else Write.
func writeClass(c echo.Context) admission.Class {
	if wantsAsync(c) {
		return admission.Async
	}
	if c.Request().URL.RawQuery != "" {
		if options := c.QueryParams(); options.Has("queue") && !options.Has("wait") {
			return admission.Async
		}
	}
	return admission.Write
}

// admitted returns h behind the admission gate, which refuses requests while too many are in flight or if they exceed their
// user's limit. A route without a class gets h itself.
func (a *API) admitted(route string, h echo.HandlerFunc) echo.HandlerFunc {
	class, limited := classOf[route]
	if !limited || a.cfg.Admission == nil {
		return h
	}
	return func(c echo.Context) (err error) {
		guest, refused := a.cfg.Admission.Arrive(a.users.Of(c.Request()), class(c))
		announceLimit(c, &guest)
		if refused != nil {
			return refused
		}
		defer func() { a.cfg.Admission.Leave(guest, err) }() // also after a panic
		return h(c)
	}
}

// The names of the headers in the form of net/http. Every answer of a limited class has these headers, and Header.Set would
// convert the names each time.
const headerPolicy, headerLimit = "Ratelimit-Policy", "Ratelimit"

// announceLimit adds the headers with what is left of the user's limit, if there is a limit, to an answer with a status 2xx
// or 429.
func announceLimit(c echo.Context, guest *admission.Guest) {
	quota, limited := guest.Quota()
	if !limited {
		return
	}
	answer := c.Response()
	answer.Before(func() {
		if answer.Status/100 == 2 || answer.Status == http.StatusTooManyRequests {
			policy, state := quota.Headers()
			values := []string{policy, state}
			header := answer.Header()
			header[headerPolicy], header[headerLimit] = values[:1:1], values[1:]
		}
	})
}

// admissionRoutes registers the routes that show and change the settings.
func (a *API) admissionRoutes() {
	gate := a.cfg.Admission
	if gate == nil {
		return
	}
	show := func(c echo.Context) error { return httpapi.JSON(c, http.StatusOK, gate.Status()) }
	a.guarded(http.MethodGet, "/api/v1/admission", show)
	a.guarded(http.MethodPatch, "/api/v1/admission", func(c echo.Context) error {
		patch, err := httpapi.ReadBody(c.Response(), c.Request())
		if err != nil {
			return err
		}
		if err = gate.Patch(c.Request().Context(), patch); err != nil {
			return err
		}
		return show(c)
	})
}
