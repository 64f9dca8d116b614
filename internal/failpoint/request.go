package failpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// Socket returns where a process listens in dir.
func Socket(dir string, pid int) string { return filepath.Join(dir, strconv.Itoa(pid)+".sock") }

// Request sends one of the requests that the package documentation describes to the process at socket, and returns the
// answer.
func Request(ctx context.Context, socket, method, name, body string) ([]byte, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://process/"+name, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only.
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s of %s: %d %s", method, name, socket, resp.StatusCode, answer)
	}
	return answer, err
}
