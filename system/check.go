package system

import (
	"net/http"

	"rideshare/internal/workerapi"
	"rideshare/orchestrator/check"
)

// checker returns the checker behind POST /api/v1/check.
func (c *core) checker() *check.Checker {
	return check.New(check.Config{
		Log: c.log, Store: c.store, Launcher: c.launcher, Coordinator: c.coordinator,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: c.control}},
	})
}
