package main

import (
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

// A scene fails on a service that answers an order 202 and loses it, also if the order is pending when the scene asks first.
func TestScene_FindsALostOrder(t *testing.T) {
	target, err := url.Parse(start(t))
	if err != nil {
		t.Fatal(err)
	}
	service := httputil.NewSingleHostReverseProxy(target)
	lost := v7(t, time.Hour)
	var posts, asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{"order": lost, "state": pending}
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/orders") && posts.Add(1) == 5:
			_ = web.Answer(w, http.StatusAccepted, db.Answer{}, body)
		case r.URL.Path == "/orders/"+lost && asked.Add(1) == 1:
			_ = web.Answer(w, http.StatusOK, db.Answer{}, body)
		default:
			service.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	code, said := play(t, "burst", server.URL)
	if want := "order " + lost + " was answered 202 and has no row"; code != 1 || asked.Load() < 2 || !strings.Contains(said, want) {
		t.Errorf("got exit code %d after asking %d times, want 1, 2 times, and %q\n%s", code, asked.Load(), want, said)
	}
}
