package system

import (
	"net/http"

	"rideshare/internal/workerapi"
	"rideshare/orchestrator/invariants"
)

// checker returns the checker behind POST /api/v1/check.
func (c *orchestratorParts) checker() *invariants.Checker {
	cfg := invariants.Config{
		Log: c.log, Store: c.store, Launcher: c.launcher, Coordinator: c.coordinator, Session: c.session,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: c.control}},
	}
	if c.reads != nil {
		cfg.Cache = c.auditCache
	}
	return invariants.New(cfg)
}
