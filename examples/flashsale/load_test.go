package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/examples/flashsale/load"
	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// play runs a scene with a hundredth of its numbers.
func play(t *testing.T, name string, services ...string) (code int, said string) {
	t.Helper()
	var text strings.Builder
	args := []string{name, "--service", strings.Join(services, ","), "--database", database(t), "--scale", "0.01", "--orders", "300000", "--connections", "64"}
	code = load.Main(t.Context(), args, &text, io.Discard)
	return code, text.String()
}

// scene runs a scene that must pass.
func scene(t *testing.T, name string, services ...string) string {
	t.Helper()
	code, said := play(t, name, services...)
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	return said
}

func TestScene_Burst(t *testing.T) { t.Log(scene(t, "burst", start(t))) }

func TestScene_SameUser(t *testing.T) { t.Log(scene(t, "same-user", start(t), start(t))) }

func TestScene_Expire(t *testing.T) { t.Log(scene(t, "expire", start(t), start(t), start(t))) }

func TestScene_Leases(t *testing.T) {
	t.Setenv(instance, "1")
	t.Log(scene(t, "leases"))
}

func TestScene_Storm(t *testing.T) { t.Log(scene(t, "storm", start(t))) }

func TestScene_Kill(t *testing.T) { t.Log(scene(t, "kill", start(t), start(t))) }

// playBehind plays a scene on a service behind a proxy. wrong reports whether it has answered a request itself.
func playBehind(t *testing.T, name string, wrong func(http.ResponseWriter, *http.Request, http.Handler) bool) (code int, said string) {
	t.Helper()
	target, err := url.Parse(start(t))
	if err != nil {
		t.Fatal(err)
	}
	service := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !wrong(w, r, service) {
			service.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	return play(t, name, server.URL)
}

func isOrder(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/orders")
}

// A scene fails on a service that answers an order 202 and loses it, also if the order is pending when the scene asks first.
func TestScene_FindsALostOrder(t *testing.T) {
	lost := v7(t, time.Hour)
	var posts, asked atomic.Int64
	code, said := playBehind(t, "burst", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		body := map[string]string{"order": lost, "state": pending}
		switch {
		case isOrder(r) && posts.Add(1) == 5:
			return web.Answer(w, http.StatusAccepted, db.Answer{}, body) == nil
		case r.URL.Path == "/orders/"+lost && asked.Add(1) == 1:
			return web.Answer(w, http.StatusOK, db.Answer{}, body) == nil
		}
		return false
	})
	if want := "order " + lost + " was answered 202 and has no row"; code != 1 || asked.Load() < 2 || !strings.Contains(said, want) {
		t.Errorf("got exit code %d after asking %d times, want 1, 2 times, and %q\n%s", code, asked.Load(), want, said)
	}
}

// A scene fails on a service that sells nothing: it refuses every order, or says that everything is sold out.
func TestScene_FindsThatNothingIsSold(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   problem
		want   string
	}{
		"burst": {http.StatusServiceUnavailable, problem{Reason: "quota"}, "want 1 orders and all others sold-out"},
		"storm": {http.StatusConflict, problem{Reason: "sold-out", By: "flag"}, "want it ok with a total of 10, and at least 10 held"},
		// Its answers are wrong too, but the counts also show it.
		"same-user": {http.StatusConflict, problem{Reason: "sold-out", By: "database"}, "want it ok with a total of 100, and at least 100 held"},
	} {
		code, said := playBehind(t, name, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			return isOrder(r) && web.Answer(w, tt.status, db.Answer{}, tt.body) == nil
		})
		if code != 1 || !strings.Contains(said, tt.want) {
			t.Errorf("%s: got exit code %d, want 1 and %q\n%s", name, code, tt.want, said)
		}
	}
}

// A scene asks for an order with an unknown outcome at the position of the last write, and until it is decided: a database
// that has not seen the order yet, or a pending order, is no wrong service.
func TestScene_UnknownOrder_WaitsUntilItIsDecided(t *testing.T) {
	var posts, asked atomic.Int64
	code, said := playBehind(t, "same-user", func(w http.ResponseWriter, r *http.Request, service http.Handler) bool {
		switch {
		case isOrder(r) && r.Header.Get("Idempotency-Key") == "" && posts.Add(1) == 1:
			made, body := httptest.NewRecorder(), map[string]string{}
			service.ServeHTTP(made, r)
			_ = json.Unmarshal(made.Body.Bytes(), &body) // Without an order the scene fails.
			return web.Answer(w, http.StatusGatewayTimeout, db.Answer{}, problem{Order: body["order"]}) == nil
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/orders/") && r.Header.Get("X-Min-Seq") == "":
			return web.Answer(w, http.StatusNotFound, db.Answer{}, problem{}) == nil
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/orders/") && asked.Add(1) == 1:
			return web.Answer(w, http.StatusOK, db.Answer{}, map[string]string{"state": pending}) == nil
		}
		return false
	})
	if code != 0 || asked.Load() < 2 || !strings.Contains(said, "1 orders were pending or had an unknown outcome") {
		t.Errorf("got exit code %d after asking %d times, want 0 after at least 2 times\n%s", code, asked.Load(), said)
	}
}
