package testenv

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// dockerHost is the variable with the address of the container engine; defaultDockerHost is the address if it is
// unset.
const (
	dockerHost        = "DOCKER_HOST"
	defaultDockerHost = "unix:///var/run/docker.sock"
)

// Docker returns the address of the container engine, once the engine has answered. Tests put their own name into
// everything they create, remove it, and do not change the engine itself.
//
// The address comes from the variable DOCKER_HOST, or is the usual socket. If there is no answer, the test fails if
// the variable or CI is set; otherwise it is skipped with a visible message.
func Docker(tb testing.TB) string {
	tb.Helper()
	address := os.Getenv(dockerHost)
	address = cmp.Or(address, defaultDockerHost)
	ctx, cancel := context.WithTimeout(tb.Context(), probeTimeout)
	defer cancel()
	if err := answersDocker(ctx, address); err != nil {
		Cannot(tb, os.Getenv(dockerHost) != "", "no container engine at %s: %v", address, err)
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
	_ = resp.Body.Close() // its content is not needed
	return err
}
