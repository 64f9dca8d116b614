package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/apidoc"
	"rideshare/internal/testkit/doctest"
	"rideshare/orchestrator/orchestratorapi"
	"rideshare/rides/ridesapi"
	"rideshare/users/usersapi"
)

// exchanges compares all requests and answers of the tests with the OpenAPI documents. The run fails at its end if the
// documents do not allow one of them.
var exchanges doctest.Recorder

// The services that have a document.
const (
	usersService        = "users"
	ridesService        = "rides"
	orchestratorService = "orchestrator"
)

var documentOf = map[string]*apidoc.Document{
	usersService: usersapi.Document, ridesService: ridesapi.Document, orchestratorService: orchestratorapi.Document,
}

// readDocuments returns the document of each service.
func readDocuments() (map[string]*doctest.Document, error) {
	all := map[string]*doctest.Document{}
	for service, doc := range documentOf {
		text, err := doc.JSON()
		if err != nil {
			return nil, err
		}
		if all[service], err = doctest.Parse(text); err != nil {
			return nil, fmt.Errorf("the document of %s: %w", service, err)
		}
	}
	return all, nil
}

// documented returns base, with all exchanges recorded.
func (s *system) documented(base *http.Transport) *doctest.Transport {
	return &doctest.Transport{Transport: base, Recorder: &exchanges, DocumentOf: func(u *url.URL) *doctest.Document {
		return suite.documents[s.serviceOf(u)]
	}}
}

// serviceOf returns the service that answers at an address of the system, "" for other addresses.
func (s *system) serviceOf(u *url.URL) string {
	switch u.Scheme + "://" + u.Host {
	case s.Users:
		return usersService
	case s.Rides:
		return ridesService
	case s.Orchestrator:
		return orchestratorService
	case s.Gateway:
		if path := u.EscapedPath(); path == "/api/v1/users" || strings.HasPrefix(path, "/api/v1/users/") {
			return usersService
		}
		return ridesService
	}
	return ""
}

// tour has every call of the documents, in an order in which each of them succeeds.
var tour = map[string][]string{
	usersService: {
		"PUT /api/v1/users", "GET /api/v1/users", "GET /api/v1/users/{username}",
		"GET /api/v1/_count", "DELETE /api/v1/_count", "GET /api/v1/users/_count", "DELETE /api/v1/users/_count",
		"GET /", "GET /livez", "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /docs", "GET /docs/style.css",
		"DELETE /api/v1/users/{username}", "POST /api/v1/db/clear",
	},
	ridesService: {
		"POST /api/v1/rides", "GET /api/v1/rides", "GET /api/v1/rides/count", "GET /api/v1/rides/{rideId}", "POST /api/v1/rides/{rideId}",
		"GET /api/v1/_count", "DELETE /api/v1/_count", "GET /api/v1/rides/_count", "DELETE /api/v1/rides/_count",
		"GET /", "GET /livez", "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /docs", "GET /docs/style.css",
		"DELETE /api/v1/rides/{rideId}", "POST /api/v1/db/clear",
	},
	orchestratorService: {
		"POST /api/v1/db/write", "POST /api/v1/db/read", "GET /api/v1/db/writes/{id}",
		"POST /db/execute", "GET /db/query", "POST /db/query", "POST /db/request", "GET /status", "GET /nodes",
		"GET /db/backup", "POST /db/load", "GET /api/v1/changes",
		"GET /api/v1/worker/list", "GET /api/v1/cluster", "GET /api/v1/events", "POST /api/v1/check",
		"GET /api/v1/scaling", "PATCH /api/v1/scaling", "GET /api/v1/scaling/decisions", "GET /api/v1/cache", "DELETE /api/v1/cache",
		"GET /api/v1/admission", "PATCH /api/v1/admission", "GET /api/v1/settings", "GET /api/v1/whoami", "GET /api/v1/live",
		"GET /", "GET /console/{file}", "GET /console/areas.csv", "GET /livez", "GET /readyz", "GET /metrics",
		"GET /openapi.json", "GET /docs", "GET /docs/style.css",
		"POST /api/v1/db/clear", "POST /api/v1/master", "POST /api/v1/crash/slave", "POST /api/v1/crash/master",
	},
}

// Every call of the documents, made with the document's own examples, succeeds. What a call answers is compared with the
// document as in all tests.
func TestDocument_EveryCall_SucceedsWithItsExamples(t *testing.T) {
	sys := start(t, setup{owned: true})
	for _, service := range []string{orchestratorService, usersService, ridesService} {
		calls := slices.Clone(tour[service])
		if slices.Sort(calls); !slices.Equal(calls, suite.documents[service].Calls()) {
			t.Errorf("%s: the calls of this test differ from those of the document: %s", service, cmp.Diff(suite.documents[service].Calls(), calls))
		}
	}
	sys.take(t, usersService, sys.Users, tour[usersService])
	for _, name := range []string{"ann", "bob"} { // of the examples
		sys.PutUser(t, name)
	}
	sys.take(t, ridesService, sys.Rides, tour[ridesService])
	sys.take(t, orchestratorService, sys.Orchestrator, tour[orchestratorService])
}

// take makes the calls of a service in order.
func (s *system) take(t *testing.T, service, base string, calls []string) {
	t.Helper()
	for _, name := range calls {
		d := suite.documents[service]
		method, path, _ := strings.Cut(name, " ")
		example := d.Example(name)
		for parameter, value := range example.Path {
			if parameter == "id" {
				value = s.Post(t, s.db("/db/execute"), `["SELECT 1"]`, "Prefer", "respond-async").Header.Get("X-Operation-Id")
			}
			path = strings.ReplaceAll(path, "{"+parameter+"}", url.PathEscape(value))
		}
		target, err := url.Parse(base + path + "?" + example.Query.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if found := d.Find(method, target); found != name {
			t.Errorf("%s %s is %q by the document, want %s", method, target, found, name)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, target.String(), strings.NewReader(example.Body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", example.BodyType)
		s.succeeds(t, req)
		if service == orchestratorService && method == http.MethodPost {
			s.AwaitService(t)
		}
	}
}

// succeeds makes a call. Of an answer without an end only the beginning is read.
func (s *system) succeeds(t *testing.T, req *http.Request) {
	t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body io.Reader = resp.Body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body = io.LimitReader(body, 1)
	}
	text, err := io.ReadAll(body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		t.Errorf("%s %s: got %s %s (%v), want a success", req.Method, req.URL, resp.Status, text, err)
	}
}
