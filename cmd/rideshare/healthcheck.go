package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// healthcheckTimeout bounds one check; container engines give up after 30 s.
const healthcheckTimeout = 5 * time.Second

// healthcheckCommand is `rideshare healthcheck`, for images without a shell.
type healthcheckCommand struct {
	URL string `arg:"" help:"Base URL of the part, the whole URL of its readiness, or unix:///path of its socket."`
}

// Run sends one request. For a URL without a path it uses /readyz.
func (h *healthcheckCommand) Run(ctx context.Context, out *output) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	url, transport, err := out.reach(h.URL)
	if err != nil {
		return usagef("%v", err)
	}
	defer transport.CloseIdleConnections()
	if _, rest, _ := strings.Cut(url, "://"); !strings.Contains(rest, "/") {
		url += "/readyz"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return usagef("%q is no URL: %v", h.URL, err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a partial body is enough for a message.
		return fmt.Errorf("not ready: %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
