package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// path is one path of a service and the methods that it takes.
type path struct {
	path    string
	methods []string
}

// surface returns every path of docs/API.md without a streaming answer, by service.
func (s *system) surface(user string, ride string) map[string][]path {
	common := []path{{"/", []string{"GET"}}, {"/livez", []string{"GET"}}, {"/readyz", []string{"GET"}}, {"/metrics", []string{"GET"}}}
	counts := []path{{"/api/v1/_count", []string{"GET", "DELETE"}}, {"/api/v1/db/clear", []string{"POST"}}}
	users := []path{{"/api/v1/users", []string{"GET", "PUT"}}, {"/api/v1/users/" + user, []string{"GET", "DELETE"}}, {"/api/v1/users/_count", []string{"GET", "DELETE"}}}
	rides := []path{
		{"/api/v1/rides", []string{"GET", "POST"}},
		{"/api/v1/rides/" + ride, []string{"GET", "POST", "DELETE"}},
		{"/api/v1/rides/count", []string{"GET"}},
		{"/api/v1/rides/_count", []string{"GET", "DELETE"}},
	}
	return map[string][]path{
		s.Users:   slices.Concat(common, counts, users),
		s.Rides:   slices.Concat(common, counts, rides),
		s.Gateway: slices.Concat(users, rides),
		s.Orchestrator: slices.Concat(common, []path{
			{"/api/v1/db/write", []string{"POST"}},
			{"/api/v1/db/read", []string{"POST"}},
			{"/api/v1/db/clear", []string{"POST"}},
			{"/api/v1/db/writes/abc", []string{"GET"}},
			{"/api/v1/check", []string{"POST"}},
			{"/api/v1/master", []string{"POST"}},
			{"/api/v1/crash/master", []string{"POST"}},
			{"/api/v1/crash/slave", []string{"POST"}},
			{"/api/v1/worker/list", []string{"GET"}},
			{"/api/v1/cluster", []string{"GET"}},
			{"/api/v1/scaling/decisions", []string{"GET"}},
			{"/db/query", []string{"GET", "POST"}},
			{"/db/execute", []string{"POST"}},
			{"/db/request", []string{"POST"}},
			{"/db/backup", []string{"GET"}},
			{"/db/load", []string{"POST"}},
		}),
	}
}

// A known path answers an unknown method with 405 and an Allow header that lists its methods, and does nothing.
func TestRoutes_OtherMethod_405WithAllow(t *testing.T) {
	sys := shared(t)
	for base, paths := range sys.surface("ann", "1") {
		for _, p := range paths {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
				if slices.Contains(p.methods, method) {
					continue
				}
				a := sys.Call(t, method, base+p.path, "")
				if a.Status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s%s: got %d, want 405", method, base, p.path, a.Status)
					continue
				}
				for _, want := range p.methods {
					if !slices.Contains(listOf(a.Header.Values("Allow")), want) {
						t.Errorf("%s %s: Allow is %q, want it to name %s", method, p.path, a.Header.Values("Allow"), want)
					}
				}
			}
		}
	}
}

// listOf splits header values at their commas.
func listOf(values []string) []string {
	var items []string
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			items = append(items, strings.TrimSpace(item))
		}
	}
	return items
}

// There are no redirects: a trailing slash is another path, and unknown.
func TestRoutes_TrailingSlash_404(t *testing.T) {
	sys := shared(t)
	for base, paths := range sys.surface("ann", "1") {
		for _, p := range paths {
			if strings.HasSuffix(p.path, "/") {
				continue
			}
			for _, method := range p.methods {
				if a := sys.Call(t, method, base+p.path+"/", ""); a.Status != http.StatusNotFound {
					t.Errorf("%s %s%s/: got %d, want 404", method, base, p.path, a.Status)
				}
			}
		}
	}
}

// Unknown paths are 404 with every method, on every service.
func TestRoutes_UnknownPath_404(t *testing.T) {
	sys := shared(t)
	for _, base := range []string{sys.Gateway, sys.Users, sys.Rides, sys.Orchestrator} {
		for _, p := range []string{
			"/api", "/api/v1", "/api/v1/", "/api/v2/users", "/api/v1/usersx", "/api/v1/ridesx", "/api/v1/rides/1/x", "/api/v1/users/a/b",
			"/API/v1/users", "/api/v1/Rides", "//api/v1/users", "/api//v1/users", "/api/v1/./users", "/favicon.ico", "/.git/config", "/x",
		} {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				if a := sys.Call(t, method, base+p, ""); a.Status != http.StatusNotFound {
					t.Errorf("%s %s%s: got %d %.80q, want 404", method, base, p, a.Status, a.Body)
				}
			}
		}
	}
}

// The prefix /api/v1/users goes to users, everything else to rides.
func TestGateway_Paths_GoToTheirService(t *testing.T) {
	sys := shared(t)
	ann := sys.NewUser(t, "ann")
	id := sys.NewRide(t, ann, 0)
	sys.play(t, []exchange{
		{name: "Users", method: "GET", url: sys.Gateway + "/api/v1/users/" + ann, status: 200, answer: toJSON(map[string]string{"username": ann})},
		{name: "Rides", method: "GET", url: sys.rideURL(id), status: 200, answer: anyBody},
		{name: "Root", method: "GET", url: sys.Gateway + "/", status: 200, answer: anyBody},
		{name: "RidesHasNoUsers", method: "GET", url: sys.Rides + "/api/v1/users", status: 404, answer: anyBody},
		{name: "UsersHasNoRides", method: "GET", url: sys.Users + "/api/v1/rides/count", status: 404, answer: anyBody},
	})
}

// A client that accepts problem+json explicitly gets it; `*/*` is not enough.
func TestErrors_ProblemJSON_OnlyWhereAskedFor(t *testing.T) {
	sys := shared(t)
	const problem = "application/problem+json"
	for _, c := range []exchange{
		{method: "PUT", url: sys.usersURL(), body: "{", status: 400},
		{method: "GET", url: sys.userURL(newName("nobody")), status: 404},
		{method: "PATCH", url: sys.usersURL(), status: 405},
		{method: "POST", url: sys.ridesURL(), body: "{}", status: 400},
		{method: "DELETE", url: sys.rideURL(1 << 40), status: 400},
		{method: "POST", url: sys.db("/api/v1/db/write"), body: `{"query":"insert","table":"nope","values":{"a":1}}`, status: 400},
		{method: "POST", url: sys.db("/api/v1/db/read"), body: `{"table":"nope","columns":["a"]}`, status: 400},
	} {
		for _, accept := range []string{"", "*/*", "application/json"} {
			a := sys.Call(t, c.method, c.url, c.body, "Accept", accept)
			if err := a.check(c.status, "{}"); err != nil {
				t.Errorf("%s %s, Accept %q: %v", c.method, c.url, accept, err)
			}
		}
		a := sys.Call(t, c.method, c.url, c.body, "Accept", "text/html, "+problem+";q=0.9")
		got := decode[struct {
			Type, Title string
			Status      int
		}](t, a)
		if a.Status != c.status || got.Status != c.status || got.Type == "" || got.Title == "" || !strings.HasPrefix(a.Header.Get("Content-Type"), problem) {
			t.Errorf("%s %s: got %d %s %s, want a problem with status %d", c.method, c.url, a.Status, a.Header.Get("Content-Type"), a.Body, c.status)
		}
	}
	a := sys.Post(t, sys.db("/db/query"), "{").expect(t, http.StatusBadRequest, anyBody)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), problem) {
		t.Errorf("the SQL form: got %s %s, want a problem unasked", a.Header.Get("Content-Type"), a.Body)
	}
}
