package httpapi_test

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
)

// getOver sends a request to the server at address.
func getOver(t *testing.T, address string) int {
	t.Helper()
	base, transport, err := httpapi.Reach(address)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// A socket is served and reached as a port is, for owner and group only. A socket left by a killed process is
// replaced; a socket in use is refused.
func TestListen_Unix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = stale.Close(); err != nil {
		t.Fatal(err)
	}
	listener, err := httpapi.Listen(t.Context(), httpapi.UnixScheme+path)
	if err != nil {
		t.Fatalf("listen where a dead process did: got %v, want nil", err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown(context.Background()) }()
	if got := getOver(t, httpapi.UnixScheme+path); got != http.StatusNotFound {
		t.Errorf("got %d over the socket, want 404", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("got %v and error %v, want a socket of mode 0660", info, err)
	}
	if _, err = httpapi.Listen(t.Context(), httpapi.UnixScheme+path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("listen where another one does: got %v, want an error that says so", err)
	}
}

// A file at the path that is not a socket stays.
func TestListen_Unix_FileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := httpapi.Listen(t.Context(), httpapi.UnixScheme+path); err == nil {
		t.Error("got no error, want one")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("got %q and error %v, want the file as it was", text, err)
	}
}

// A caller waits two seconds for a host that is off, and five for a host that does not answer a TLS handshake. The dial is also that of
// tlsfiles, which has the same limit for the handshake.
func TestReach_SilentHost_EndsInTime(t *testing.T) {
	testenv.SilentHosts(t)
	for name, want := range map[string]time.Duration{"Dial": 2 * time.Second, "Handshake": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			_, transport, err := httpapi.Reach("https://silent.example")
			if err != nil {
				t.Fatal(err)
			}
			server, client := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			if name == "Handshake" {
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return client, nil }
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://silent.example", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if took := time.Since(start); err == nil || took != want {
				t.Errorf("%s: got %v after %v, want an error after %v", name, err, took, want)
			}
			_ = client.Close()
		})
	}
}
