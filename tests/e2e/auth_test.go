package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// credentialFile is an AUTH_FILE with one credential of each kind.
func credentialFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth")
	text := "# who may use the database\nbearer s3cret-token\n\nbasic ann:pass:word\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// With AUTH_FILE the database, crash and console routes require credentials, and the other routes do not. users and
// rides work as before, except for the routes that clear their data.
func TestAuth_WithCredentials_GuardsWhatTouchesTheDatabase(t *testing.T) {
	sys := start(t, setup{env: []string{"AUTH_FILE=" + credentialFile(t)}})
	guarded := []exchange{
		{method: "POST", url: sys.db("/api/v1/db/read"), body: `{"table":"users","columns":["username"]}`},
		{method: "POST", url: sys.db("/api/v1/db/write"), body: `{"query":"delete","table":"users","condition":{"username":"x"}}`},
		{method: "POST", url: sys.db("/db/query"), body: `["SELECT 1"]`},
		{method: "GET", url: sys.db("/db/query?q=SELECT%201")},
		{method: "POST", url: sys.db("/db/execute"), body: `["DELETE FROM users WHERE username='x'"]`},
		{method: "POST", url: sys.db("/db/request"), body: `["SELECT 1"]`},
		{method: "GET", url: sys.db("/db/backup")},
		{method: "POST", url: sys.db("/db/load"), body: "SELECT 1"},
		{method: "POST", url: sys.db("/api/v1/db/clear")},
		{method: "GET", url: sys.db("/")},
	}
	crash := exchange{method: "POST", url: sys.db("/api/v1/crash/slave")}
	for _, path := range openPaths {
		sys.Get(t, sys.db(path)).expect(t, http.StatusOK, anyBody)
	}
	pids := sys.Workers(t)
	for _, x := range sys.notOpen() {
		for _, wrong := range []string{"", "Bearer", "Bearer wrong", "bearer s3cret-toke", "Bearer s3cret-token2", "Basic !!!", basic("ann", "wrong"), basic("", ""), basic("s3cret-token", "")} {
			a := sys.Call(t, x.method, x.url, x.body, "Authorization", wrong)
			if err := a.check(http.StatusUnauthorized, anyBody); err != nil {
				t.Errorf("%s %s with %q: %v", x.method, x.url, wrong, err)
			}
			if challenges := strings.ToLower(strings.Join(a.Header.Values("WWW-Authenticate"), ", ")); !strings.Contains(challenges, "basic") || !strings.Contains(challenges, "bearer") {
				t.Errorf("%s %s: WWW-Authenticate is %q, want both ways in", x.method, x.url, challenges)
			}
		}
	}
	if got := sys.Workers(t); !slices.Equal(got, pids) {
		t.Errorf("workers after refused crashes: got %v, want %v", got, pids)
	}
	for _, x := range append(guarded, crash) {
		for _, right := range []string{"Bearer s3cret-token", basic("ann", "pass:word")} {
			if x.url == crash.url && strings.HasPrefix(right, "Basic") {
				continue // the bearer has crashed the only slave
			}
			a := sys.Call(t, x.method, x.url, x.body, "Authorization", right)
			if err := a.check(http.StatusOK, anyBody); err != nil {
				t.Errorf("%s %s with %q: %v", x.method, x.url, right, err)
			}
		}
	}
	sys.AwaitService(t)
	sys.PutUser(t, "ann")
	id := sys.NewRide(t, "ann", 0)
	sys.Get(t, sys.rideURL(id)).expect(t, http.StatusOK, anyBody)
	sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, `["ann"]`)
	emptying(t, sys)
}

// openPaths are the orchestrator's paths that require no credentials.
var openPaths = []string{"/api/v1/worker/list", "/api/v1/cluster", "/api/v1/scaling/decisions", "/livez", "/readyz", "/metrics"}

// notOpen returns calls of all other paths of the orchestrator.
func (s *system) notOpen() []exchange {
	var calls []exchange
	for _, p := range s.surface("ann", "1")[s.Orchestrator] {
		for _, method := range p.methods {
			if !slices.Contains(openPaths, p.path) {
				calls = append(calls, exchange{method: method, url: s.db(p.path)})
			}
		}
	}
	return calls
}

// emptying checks that nothing can be cleared without credentials, on any port.
func emptying(t *testing.T, sys *system) {
	t.Helper()
	for _, x := range []exchange{
		{method: "POST", url: sys.Users + "/api/v1/db/clear"},
		{method: "POST", url: sys.Rides + "/api/v1/db/clear"},
		{method: "POST", url: sys.Gateway + "/api/v1/db/clear"},
		{method: "DELETE", url: sys.Gateway + "/api/v1/users/_count"},
		{method: "DELETE", url: sys.Users + "/api/v1/_count"},
		{method: "DELETE", url: sys.Rides + "/api/v1/_count"},
	} {
		sys.Call(t, x.method, x.url, "").expect(t, http.StatusUnauthorized, "{}")
		sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, `["ann"]`)
	}
	sys.Call(t, "POST", sys.Users+"/api/v1/db/clear", "", "Authorization", "Bearer s3cret-token").expect(t, http.StatusOK, "{}")
	sys.Get(t, sys.usersURL()).expect(t, http.StatusNoContent, "")
}

// basic is the value of an Authorization header.
func basic(user, password string) string {
	req := http.Request{Header: http.Header{}}
	req.SetBasicAuth(user, password)
	return req.Header.Get("Authorization")
}

// Without AUTH_FILE everything is open, and the log says so in one warning line.
func TestAuth_WithoutCredentials_OneWarning(t *testing.T) {
	sys := start(t, setup{owned: true})
	text, err := os.ReadFile(sys.logFile())
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"WARN"`) && strings.Contains(line, "open") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 1 {
		t.Errorf("warnings that the routes are open: got %q, want one", warnings)
	}
}
