package usercheck_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
	"rideshare/rides"
	"rideshare/rides/usercheck"
)

var _ rides.Users = (*usercheck.Client)(nil)

// Only a known mode and a usable URL make a client.
func TestNew_Settings(t *testing.T) {
	for _, cfg := range []usercheck.Config{
		{},
		{Gateway: "localhost:80"},
		{Gateway: "http://"},
		{Gateway: "://"},
		{Gateway: "http://x", Mode: "cache"},
		{Gateway: "http://x,"},
		{Gateway: "http://x,http://x"},
		{Gateway: "http://x,http://y/path"},
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
	for _, mode := range []usercheck.Mode{usercheck.Lookup, usercheck.List} {
		c, err := usercheck.New(usercheck.Config{Gateway: "http://" + testenv.FreeAddress(t), Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exists(t.Context(), "ann", 0); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("%s: got %v, want CodeUnavailable", mode, err)
		}
	}
}

// ask asks for ann.
func ask(t *testing.T, c *usercheck.Client, want dbaas.Code) {
	t.Helper()
	found, err := c.Exists(t.Context(), "ann", 0)
	if dbaas.CodeOf(err) != want || found != (want == dbaas.CodeOK) {
		t.Errorf("got %v, %v, want code %q", found, err, want)
	}
}

func newClient(t *testing.T, gateways ...string) *usercheck.Client {
	t.Helper()
	c, err := usercheck.New(usercheck.Config{Gateway: strings.Join(gateways, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A gateway that takes no connection was not asked, so the next one is. One that was asked and does not answer may have counted
// the question: it is not repeated, neither elsewhere nor by the transport, whether or not the connection was used before.
func TestClient_Exists_Gateways(t *testing.T) {
	users := &everybody{}
	second := httptest.NewServer(users)
	t.Cleanup(second.Close)
	asked := func(want int) {
		t.Helper()
		if got := users.take(); len(got) != want {
			t.Errorf("the second gateway was asked %d times, want %d", len(got), want)
		}
	}
	t.Run("Refused", func(t *testing.T) {
		ask(t, newClient(t, "http://"+testenv.FreeAddress(t), second.URL), dbaas.CodeOK)
		asked(1)
	})
	t.Run("Paused", func(t *testing.T) {
		first := testenv.NewNetwork(t, second.URL)
		first.Cut()
		c := newClient(t, "http://"+first.Addr(), second.URL)
		ask(t, c, dbaas.CodeUnavailable)
		asked(0)
		ask(t, c, dbaas.CodeOK)
		asked(1)
	})
	t.Run("Reset", func(t *testing.T) {
		var questions atomic.Int64
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if questions.Add(1) == 1 {
				users.ServeHTTP(w, r)
				return
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			_ = conn.Close()
		}))
		t.Cleanup(first.Close)
		c := newClient(t, first.URL, second.URL)
		ask(t, c, dbaas.CodeOK)
		asked(1) // by the first
		ask(t, c, dbaas.CodeUnavailable)
		asked(0)
		if got := questions.Load(); got != 2 {
			t.Errorf("the first gateway was asked %d times, want twice", got)
		}
	})
}

// A refusal of the users service keeps its code, reason and time to retry. Any other answer without the user means that the
// users service cannot be asked.
func TestClient_Exists_Refused(t *testing.T) {
	for _, mode := range []usercheck.Mode{usercheck.Lookup, usercheck.List} {
		var refusal *dbaas.Error
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpapi.WriteError(w, r, true, refusal) // as the course's routes do
		}))
		t.Cleanup(server.Close)
		c, err := usercheck.New(usercheck.Config{Gateway: server.URL, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		for _, code := range []dbaas.Code{dbaas.CodeQuota, dbaas.CodeUnavailable, dbaas.CodeFull, dbaas.CodeNotCaughtUp} {
			refusal = &dbaas.Error{Code: code, Message: "the rest is used up", Reason: "user", RetryAfter: 1500 * time.Millisecond}
			_, err := c.Exists(t.Context(), "ann", 0)
			e, ok := errors.AsType[*dbaas.Error](err)
			if !ok || e.Code != code || e.Message != refusal.Message || e.Reason != refusal.Reason || e.RetryAfter != refusal.RetryAfter {
				t.Errorf("%s: got %#v, want %#v", mode, err, refusal)
			}
		}
		for _, code := range []dbaas.Code{dbaas.CodeInvalid, dbaas.CodeTimeout, dbaas.CodeForbidden, dbaas.CodeInternal} {
			refusal = &dbaas.Error{Code: code, Message: "for another reason"}
			if _, err := c.Exists(t.Context(), "ann", 0); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
				t.Errorf("%s, %s: got %v, want CodeUnavailable", mode, code, err)
			}
		}
	}
}
