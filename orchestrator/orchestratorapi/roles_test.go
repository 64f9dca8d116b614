package orchestratorapi_test

import (
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
	"rideshare/internal/passhash"
	"rideshare/orchestrator/orchestratorapi"
)

// needed is the role of each route, as docs/API.md has it; "" for a route that asks for no credentials.
var needed = map[string]string{
	"GET /livez": "", "GET /readyz": "", "GET /metrics": "", "GET /api/v1/worker/list": "",
	"GET /openapi.json": "read", "GET /docs": "read", "GET /docs/style.css": "",
	"GET /": "read", "GET /console/:file": "", "GET /console/areas.csv": "", "GET /api/v1/whoami": "", "GET /api/v1/live": "read", "GET /api/v1/settings": "read", "GET /api/v1/scaling": "read", "PATCH /api/v1/scaling": "admin", "GET /db/query": "read", "POST /db/query": "read", "POST /db/request": "read", "GET /db/backup": "read", "GET /api/v1/changes": "read",
	"POST /api/v1/db/read": "read", "GET /api/v1/db/writes/:id": "read", "GET /api/v1/cache": "read", "DELETE /api/v1/cache": "admin",
	"GET /api/v1/admission": "read", "PATCH /api/v1/admission": "admin",
	"GET /api/v1/cluster": "read", "GET /api/v1/events": "read", "GET /api/v1/scaling/decisions": "read", "GET /status": "read", "GET /nodes": "read",
	"POST /db/execute": "write", "POST /api/v1/db/write": "write", "POST /api/v1/db/clear": "write",
	"POST /api/v1/crash/master": "admin", "POST /api/v1/crash/slave": "admin", "POST /api/v1/master": "admin", "POST /api/v1/check": "admin", "POST /db/load": "admin",
}

// withRoles returns a file with a user for each role, and callers from the one who may do least to the one who may do all, each with an Authorization header.
func withRoles(t *testing.T) (file string, callers []string) {
	t.Helper()
	callers = []string{"Bearer wrong"}
	for _, role := range []httpapi.Role{httpapi.Read, httpapi.Write, httpapi.Admin} {
		hash := passhash.Argon2id("secret", [passhash.SaltSize]byte{}, passhash.Cost{MemoryKiB: 8, Passes: 1})
		file += "user " + role.String() + " " + role.String() + " " + hash + "\n"
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth(role.String(), "secret")
		callers = append(callers, r.Header.Get("Authorization"))
	}
	return file, callers
}

// Every route answers exactly the callers that its role admits: 401 without or with wrong credentials, 403 without the
// role. A route that this table does not have fails the test.
func TestRoles_EveryRouteWithEveryRole(t *testing.T) {
	file, callers := withRoles(t)
	creds, err := httpapi.ParseCredentials(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	s := &system{
		crash:    func() (int, bool, error) { return 1, true, nil },
		handover: func(int) (orchestratorapi.HandedOver, error) { return orchestratorapi.HandedOver{}, nil },
	}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Credentials = creds }, allRoutes(t))
	rank := map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}
	routes := h.HTTP().Routes()
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		role, known := needed[strings.Replace(route, "HEAD ", "GET ", 1)]
		if !known && method != http.MethodOptions { // OPTIONS asks for no credentials.
			t.Errorf("route %s is not in the table of this test", route)
			continue
		}
		path = strings.ReplaceAll(path, ":id", "x")
		for i, authorization := range append([]string{""}, callers...) {
			got := call(t, h, method, path, "", "Authorization: "+authorization, "Accept: application/problem+json")
			var wrong bool
			switch has := max(i-1, 0); {
			case has == 0 && role != "":
				wrong = got.Code != http.StatusUnauthorized || got.Header().Get("WWW-Authenticate") == ""
			case has < rank[role]:
				wrong = got.Code != http.StatusForbidden || method != http.MethodHead && !strings.Contains(got.Body.String(), `"code":"forbidden"`)
			default:
				wrong = got.Code == http.StatusUnauthorized || got.Code == http.StatusForbidden
			}
			if wrong {
				t.Errorf("%s needs %q: got %d %s for caller %d", route, role, got.Code, got.Body, i)
			}
		}
	}
	for route := range needed {
		if !strings.Contains(strings.Join(routes, "\n")+"\n", route+"\n") {
			t.Errorf("%s is no route", route)
		}
	}
}

// Of a reader /db/request is served as /db/query, also a write in it, which is refused there. A writer's goes to the
// master.
func TestRoles_RequestOfReader_IsQuery(t *testing.T) {
	file, callers := withRoles(t)
	creds, err := httpapi.ParseCredentials(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for i, wantOps := range map[int]int{1: 0, 2: 1, 3: 1} {
		s := &system{}
		h := newAPI(s, func(c *orchestratorapi.Config) { c.Credentials = creds })
		want(t, call(t, h, "POST", "/db/request", `["DELETE FROM t"]`, "Authorization: "+callers[i]), http.StatusOK, "")
		if len(s.ops) != wantOps || len(s.reads) != 1-wantOps {
			t.Errorf("caller %d: got %d operations and %d reads", i, len(s.ops), len(s.reads))
		}
		if wantOps == 0 && s.lastRead(t).Statements[0].SQL != "DELETE FROM t" {
			t.Errorf("caller %d: read %v", i, s.lastRead(t))
		}
	}
}
