package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// busyAddress returns an address at which somebody listens until the test ends.
func busyAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// persdb with an occupied port ends with one line, before it opens its data.
func TestPersdb_PortOccupied_OpensNothing(t *testing.T) {
	addr, data := busyAddress(t), filepath.Join(t.TempDir(), "data")
	var stdout, stderr lines
	code := run(t.Context(), []string{"persdb", "--listen", addr, "--data", data}, &stdout, &stderr)
	text := stderr.text.String()
	if want := "listen on " + addr + ": address already in use\n"; code != exitFailed || !strings.HasSuffix(text, want) || strings.Count(text, "\n") != 1 {
		t.Errorf("got exit code %d and stderr %q, want %d and one line that ends with %q", code, text, exitFailed, want)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder was made")
	}
}
