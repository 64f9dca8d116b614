package httpapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
)

// openSite returns the address of a server that answers 200, and its log.
func openSite(t *testing.T, cfg httpapi.ServerConfig) (*httpapi.Server, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	cfg.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s := httpapi.NewServer(cfg)
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, &log
}

// sendTo returns the answer to a request that set has modified.
func sendTo(t *testing.T, s *httpapi.Server, method string, set func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	set(r)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, bodyOf(t, resp)
}

// A browser names the site of the page that sends a request: requests from other sites change nothing.
func TestServer_PageOfAnotherSite_ChangesNothing(t *testing.T) {
	s, _ := openSite(t, httpapi.ServerConfig{Addr: "127.0.0.1:0"})
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"} {
		for site, foreign := range map[string]bool{"": false, "none": false, "same-origin": false, "same-site": true, "cross-site": true, "x": true} {
			status, body := sendTo(t, s, method, func(r *http.Request) {
				if site != "" {
					r.Header.Set("Sec-Fetch-Site", site)
				}
			})
			refused := foreign && method != "GET" && method != "HEAD" && method != "OPTIONS"
			if want := map[bool]int{true: 403, false: 200}[refused]; status != want {
				t.Errorf("%s from %q: got %d, want %d", method, site, status, want)
			}
			if refused && (!strings.Contains(body, `"code":"forbidden"`) || !strings.Contains(body, "another site")) {
				t.Errorf("%s from %q: got %s, want the reason", method, site, body)
			}
		}
	}
}

// For the browser, a page whose own name resolves to this machine is the same site. On a loopback address only known
// names are answered.
func TestServer_UnknownHostOnLoopback_IsForbidden(t *testing.T) {
	s, _ := openSite(t, httpapi.ServerConfig{Addr: "127.0.0.1:0", AllowedHosts: []string{"db.internal"}})
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8083": 200, "192.0.2.1:80": 200, "[::1]:8083": 200, "[::1]": 200, "localhost": 200, "LOCALHOST:1": 200,
		"db.internal": 200, "DB.internal:8083": 200,
		"evil.example": 403, "evil.example:8083": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "xdb.internal": 403,
	} {
		for _, method := range []string{"GET", "POST"} {
			status, body := sendTo(t, s, method, func(r *http.Request) { r.Host = host })
			if status != want {
				t.Errorf("%s with host %s: got %d %s, want %d", method, host, status, body, want)
			}
			if status == 403 && !strings.Contains(body, "ALLOWED_HOSTS") {
				t.Errorf("%s with host %s: got %s, want the cure", method, host, body)
			}
		}
	}
}

// Beyond loopback all names are accepted, unless names are configured.
func TestServer_UnknownHostElsewhere_IsAnswered(t *testing.T) {
	s, _ := openSite(t, httpapi.ServerConfig{Addr: "0.0.0.0:0"})
	if status, body := sendTo(t, s, "POST", func(r *http.Request) { r.Host = "orchestrator:9500" }); status != 200 {
		t.Errorf("got %d %s, want 200", status, body)
	}
	named, _ := openSite(t, httpapi.ServerConfig{Addr: "0.0.0.0:0", AllowedHosts: []string{"orchestrator"}})
	for host, want := range map[string]int{"orchestrator:9500": 200, "127.0.0.1": 200, "evil.example": 403} {
		if status, body := sendTo(t, named, "POST", func(r *http.Request) { r.Host = host }); status != want {
			t.Errorf("names are set, host %s: got %d %s, want %d", host, status, body, want)
		}
	}
}

// A server that other machines reach without credentials logs a warning, with its address and the remedy.
func TestServer_Exposed_WarnsBeyondLoopback(t *testing.T) {
	for addr, want := range map[string]int{"0.0.0.0:0": 1, "127.0.0.1:0": 0, "unix://" + t.TempDir() + "/s": 0} {
		s, log := openSite(t, httpapi.ServerConfig{Addr: addr, Exposed: "set AUTH_FILE"})
		if got := strings.Count(log.String(), `"WARN"`); got != want {
			t.Errorf("%s: got %d warnings, want %d: %s", addr, got, want, log)
		}
		if want > 0 && (!strings.Contains(log.String(), s.Addr()) || !strings.Contains(log.String(), "set AUTH_FILE")) {
			t.Errorf("%s: got %s, want address and cure", addr, log)
		}
	}
}
