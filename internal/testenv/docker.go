package testenv

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// dockerHost is the variable that names the container engine, and the address without it.
const (
	dockerHost        = "DOCKER_HOST"
	defaultDockerHost = "unix:///var/run/docker.sock"
)

// Docker returns the address of the container engine, after it has answered. Tests name all
// that they make after themselves, remove it, and do nothing to the engine itself.
//
// The address is that of the variable DOCKER_HOST, or the usual socket. Without an answer the
// test fails if the variable or CI is set; else it is skipped, which is said aloud.
func Docker(tb testing.TB) string {
	tb.Helper()
	address := os.Getenv(dockerHost)
	if address == "" {
		address = defaultDockerHost
	}
	ctx, cancel := context.WithTimeout(tb.Context(), probeTimeout)
	defer cancel()
	if err := answersDocker(ctx, address); err != nil {
		cannot(tb, os.Getenv(dockerHost) != "", "no container engine at %s: %v", address, err)
	}
	return address
}

func answersDocker(ctx context.Context, address string) error {
	network, where, _ := strings.Cut(address, "://")
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, where)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("ping: %s", resp.Status)
	}
	_ = resp.Body.Close() // nothing in it is of interest
	return err
}
