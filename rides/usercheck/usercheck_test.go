package usercheck_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/rides"
	"rideshare/rides/usercheck"
)

var _ rides.Users = (*usercheck.Client)(nil)

// Only a known mode and a usable URL make a client.
func TestNew_Settings(t *testing.T) {
	for _, cfg := range []usercheck.Config{
		{}, {Gateway: "localhost:80"}, {Gateway: "http://"}, {Gateway: "://"}, {Gateway: "http://x", Mode: "cache"},
	} {
		if _, err := usercheck.New(cfg); err == nil {
			t.Errorf("%+v: got nil, want an error", cfg)
		}
	}
}

// Any name arrives unchanged; for names that no user can have, no request is sent.
func TestClient_Exists_Names(t *testing.T) {
	users := &everybody{}
	server := httptest.NewUnstartedServer(users)
	server.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	server.Start()
	t.Cleanup(server.Close)
	c, err := usercheck.New(usercheck.Config{Gateway: server.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{"ann", "a/b", "%2F", "..", ".", "?", "#", ";", "\u0000", "😀", strings.Repeat("%", 100_000)} {
		found, err := c.Exists(t.Context(), name, 0)
		if asked := users.take(); err != nil || !found || len(asked) != 1 || asked[0] != name {
			t.Errorf("%.20q: got %v, %v; asked for %.60q", name, found, err, asked)
		}
	}
	for _, name := range []string{"", "_count"} {
		if found, err := c.Exists(t.Context(), name, 0); found || err != nil || len(users.take()) != 0 {
			t.Errorf("%q: got %v, %v", name, found, err)
		}
	}
}

// If no server answers, the error is CodeUnavailable, in either mode.
func TestClient_Exists_NobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for _, mode := range []usercheck.Mode{usercheck.Lookup, usercheck.List} {
		c, err := usercheck.New(usercheck.Config{Gateway: server.URL, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exists(t.Context(), "ann", 0); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("%s: got %v, want CodeUnavailable", mode, err)
		}
	}
}
