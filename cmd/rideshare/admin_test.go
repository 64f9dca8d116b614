package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

// lines collects written output. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// address waits for the log line that has a listener's address, and returns the address.
func (l *lines) address(t *testing.T, started string) string {
	t.Helper()
	line := regexp.MustCompile(`"` + started + `".*"addr":"([^"]+)"`)
	var address string
	testenv.Eventually(t, time.Minute, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		m := line.FindSubmatch(l.text.Bytes())
		if m == nil {
			return errors.New("no line " + started)
		}
		address = string(m[1])
		return nil
	})
	return address
}

// The gateway serves its own metrics at its admin listener, since on its public port that path goes to the service
// behind it.
func TestAdmin_GatewayHasItsOwnMetrics(t *testing.T) {
	t.Setenv(envAdmin, "") // run sets it for its children
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the service's "+r.URL.Path)
	}))
	defer behind.Close()
	var stdout, stderr lines
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--users-url", behind.URL, "--rides-url", behind.URL}, &stdout, &stderr)
	}()
	admin, gateway := stderr.address(t, "admin listener started"), stdout.address(t, "part started")
	if got, want := apitest.OK(t, "GET", "http://"+gateway+"/metrics", ""), "the service's /metrics"; got != want {
		t.Errorf("at the gateway: got %q, want %q", got, want)
	}
	metrics := apitest.OK(t, "GET", "http://"+admin+"/metrics", "")
	for _, want := range []string{`rideshare_http_requests_total{code="200",method="GET",part="gateway"`, "\ngo_goroutines "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("at the admin listener: got %s, want %s", metrics, want)
		}
	}
	apitest.OK(t, "GET", "http://"+admin+"/debug/pprof/", "")
	stop()
	if got := <-ended; got != exitDone {
		t.Errorf("got exit code %d, want %d", got, exitDone)
	}
}

// count returns nil if text was written at least n times.
func (l *lines) count(text string, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := strings.Count(l.text.String(), text); got < n {
		return fmt.Errorf("got %q %d times in %q, want %d", text, got, l.text.String(), n)
	}
	return nil
}
