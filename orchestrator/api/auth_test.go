package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"rideshare/orchestrator/api"
)

// With credentials the database, crash and console routes ask for them, every
// other route stays open; without a file everything is open.
func TestCredentials_GuardTheirRoutes(t *testing.T) {
	creds, err := api.ParseCredentials(strings.NewReader("# comment\n\nbearer secret-token\nbasic ann:pass word:x\nbearer other\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &system{crash: func() (int, bool, error) { return 1, true, nil }}
	guarded := []string{
		"POST /api/v1/db/read", "POST /api/v1/db/write", "POST /api/v1/db/clear", "GET /api/v1/db/writes/x", "POST /api/v1/crash/master",
		"POST /api/v1/crash/slave", "GET /db/query", "POST /db/query", "POST /db/execute", "POST /db/request", "GET /",
	}
	open := []string{"GET /api/v1/worker/list", "GET /api/v1/cluster", "GET /livez", "GET /readyz"}
	h := newAPI(s, func(c *api.Config) { c.Credentials = creds })
	basic := func(user, password string) string {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for _, target := range guarded {
		method, path, _ := strings.Cut(target, " ")
		for _, header := range []string{
			"X-None: 1", "Authorization: Bearer wrong", "Authorization: Bearer ", "Authorization: secret-token", "Authorization: Basic !!!",
			basic("ann", "wrong"), basic("", ""), basic("secret-token", ""), "Authorization: Bearer ann:pass word:x",
		} {
			w := call(t, h, method, path, "", header)
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s with %q: got %d, %v", target, header, w.Code, w.Header())
			}
		}
		for _, header := range []string{"Authorization: Bearer secret-token", "Authorization: bearer other", basic("ann", "pass word:x")} {
			if w := call(t, h, method, path, "", header); w.Code == http.StatusUnauthorized {
				t.Errorf("%s with %q: got 401", target, header)
			}
		}
	}
	for _, target := range open {
		method, path, _ := strings.Cut(target, " ")
		want(t, call(t, h, method, path, ""), http.StatusOK, "")
	}
	if len(s.ops) == 0 {
		t.Error("no write got through with credentials")
	}
	if w := call(t, newAPI(s), "POST", "/api/v1/db/clear", ""); w.Code != http.StatusOK {
		t.Errorf("without credentials set: got %d", w.Code)
	}
}

// A file that is not what it should be is an error that shows no secret.
func TestParseCredentials_BrokenFiles_AreErrors(t *testing.T) {
	for _, file := range []string{"", "# only\n", "hunter2", "bearer", "bearer ", "bearer hunter2 x", "basic hunter2", "basic :hunter2", "digest hunter2", "bearer ok\nhunter2\n"} {
		_, err := api.ParseCredentials(strings.NewReader(file))
		if !errors.Is(err, api.ErrCredentials) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("file %q: got %v", file, err)
		}
	}
}
