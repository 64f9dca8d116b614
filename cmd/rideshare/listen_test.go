package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// persdb with an occupied port ends with one line, before it opens its data.
func TestPersdb_PortOccupied_OpensNothing(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	data := filepath.Join(t.TempDir(), "data")
	var stdout, stderr lines
	code := run(t.Context(), []string{"persdb", "--listen", listener.Addr().String(), "--data", data}, &stdout, &stderr)
	text := stderr.text.String()
	if want := "listen on " + listener.Addr().String() + ": address already in use\n"; code != exitFailed || !strings.HasSuffix(text, want) || strings.Count(text, "\n") != 1 {
		t.Errorf("got exit code %d and stderr %q, want %d and one line that ends with %q", code, text, exitFailed, want)
	}
	if _, err = os.Stat(data); err == nil {
		t.Error("the data folder was made")
	}
}
