package orchestratorapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/orchestrator/console"
)

// consoleRoutes registers the console's page, which has the sign-in form, and the routes that exist only for the console.
func (a *API) consoleRoutes() {
	file := func(c echo.Context) error {
		if !console.Files(c.Response(), c.Request(), httpapi.Param(c, "file")) {
			return dbaas.Errorf(dbaas.CodeNotFound, "the console has no such file")
		}
		return nil
	}
	a.openToBrowsers("/", file)
	a.http.Handle(http.MethodGet, console.Prefix+":file", file)
	a.http.Handle(http.MethodGet, console.Prefix+"areas.csv", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "text/csv; charset=utf-8", []byte(a.cfg.Areas))
	})
	a.http.Handle(http.MethodGet, "/api/v1/whoami", a.whoami)
	a.guarded(http.MethodGet, "/api/v1/settings", a.settings)
	if a.cfg.Live != nil {
		a.cfg.Live.State = a.liveState
		a.guarded(http.MethodGet, "/api/v1/live", echo.WrapHandler(a.cfg.Live))
	}
}

// settings answers GET /api/v1/settings.
func (a *API) settings(c echo.Context) error {
	about := a.cfg.About
	about.Parts = []settings.Part{}
	if a.cfg.Parts != nil {
		about.Parts = a.cfg.Parts(c.Request().Context())
	}
	return httpapi.JSON(c, http.StatusOK, about)
}

// caller is the answer of GET /api/v1/whoami.
type caller struct {
	// Role is "none" for a caller whose credentials are missing or wrong.
	Role string `json:"role"`
	// Name is the user's name; empty for a bearer token, and if the orchestrator asks for no credentials.
	Name string `json:"name"`
	// Credentials reports whether the orchestrator asks for credentials at all.
	Credentials bool `json:"credentials"`
}

// whoami answers GET /api/v1/whoami: what the caller may do.
func (a *API) whoami(c echo.Context) error {
	who, err := a.cfg.Credentials.Caller(c.Request())
	if err != nil {
		return err
	}
	answer := caller{Role: "none", Credentials: a.cfg.Credentials != nil}
	if who != "" || !answer.Credentials {
		answer.Role = httpapi.RoleOf(c.Request().Context()).String()
	}
	if name, named := strings.CutPrefix(who, "basic "); named {
		answer.Name = name
	}
	return httpapi.JSON(c, http.StatusOK, answer)
}

// liveState is the state of the system in the stream of GET /api/v1/live.
type liveState struct {
	Cluster *ClusterStatus `json:"cluster"` // null while the launcher does not answer
	Health  []condition    `json:"health"`
}

// condition is a condition of GET /readyz.
type condition struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Starting reports that the condition is not met although a worker with the needed role exists: it does not serve.
	Starting bool `json:"starting,omitempty"`
}

func (a *API) liveState(ctx context.Context) any {
	var state liveState
	starting := map[string]bool{}
	var missing []string
	var asked sync.WaitGroup
	asked.Go(func() { missing = a.missing(ctx, true) })
	status, err := a.cfg.Cluster.Status(ctx)
	asked.Wait()
	if err == nil {
		state.Cluster = &status
		for _, m := range status.Members {
			starting[conditionOf(m.Role)] = true
		}
	}
	names := []string{}
	for _, check := range a.cfg.Checks {
		names = append(names, check.Name)
	}
	names = append(names, conditionMaster, conditionSlave)
	for _, other := range missing {
		if !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	for _, name := range names {
		ok := !slices.Contains(missing, name)
		state.Health = append(state.Health, condition{Name: name, OK: ok, Starting: !ok && starting[name]})
	}
	return state
}

// conditionOf returns the condition of readiness that a worker in this role fulfils.
func conditionOf(role dbaas.Role) string {
	if role == dbaas.RoleMaster {
		return conditionMaster
	}
	return conditionSlave
}
