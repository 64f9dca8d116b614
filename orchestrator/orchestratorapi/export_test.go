package orchestratorapi

import "rideshare/internal/httpapi"

// HTTP returns the routes.
func (a *API) HTTP() *httpapi.API { return a.http }

// MaxPending is how many accepted operations are remembered.
const MaxPending = maxPending
