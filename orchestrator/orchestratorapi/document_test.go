package orchestratorapi_test

import (
	"testing"

	"rideshare/internal/testkit/doctest"
	"rideshare/orchestrator/orchestratorapi"
)

// The OpenAPI document has exactly the routes, each with the role that it needs.
func TestDocument_HasEveryRouteAndRole(t *testing.T) {
	routes := newAPI(&system{}, allRoutes(t)).HTTP().Routes()
	d := doctest.Routes(t, orchestratorapi.Document, routes)
	for route, role := range needed {
		if got := d.Role(route); got != role {
			t.Errorf("%s needs the role %q by the document, want %q", route, got, role)
		}
	}
}
