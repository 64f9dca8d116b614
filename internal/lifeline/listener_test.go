package lifeline_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"rideshare/internal/lifeline"
)

// The parent's listener works here, including connections made before it was taken, and closing it frees the port: no
// copy stays open.
func TestListener_Inherited(t *testing.T) {
	parent, err := net.Listen("tcp", "127.0.0.3:0") // no other process takes the port at this address
	if err != nil {
		t.Fatal(err)
	}
	address := parent.Addr().String()
	file, err := parent.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	handOver(t, lifeline.EnvListener, file)
	if err = parent.Close(); err != nil {
		t.Fatal(err)
	}
	early, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("connect before it is taken: %v", err)
	}
	listener, err := lifeline.Listener()
	if err != nil {
		t.Fatalf("got %v, want the listener", err)
	}
	if got := listener.Addr().String(); got != address {
		t.Errorf("address: got %s, want %s", got, address)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := early.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(io.LimitReader(conn, 1)); string(got) != "x" {
		t.Errorf("got %q and error %v through the listener, want x", got, err)
	}
	// The other end closes first, so that no half-closed connection keeps the port.
	if err := errors.Join(early.Close(), conn.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the port takes connections after the listener was closed")
	}
	if _, err := lifeline.Listener(); !errors.Is(err, lifeline.ErrNoListener) {
		t.Errorf("taken again: got %v, want %v", err, lifeline.ErrNoListener)
	}
}

// A process that no launcher started has no listener, and gets ErrNoListener.
func TestListener_None(t *testing.T) {
	if _, err := lifeline.Listener(); !errors.Is(err, lifeline.ErrNoListener) {
		t.Errorf("got %v, want %v", err, lifeline.ErrNoListener)
	}
}

// A variable that refers to something else is an error that names the variable.
func TestListener_NoListener(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	handOver(t, lifeline.EnvListener, file)
	_, err = lifeline.Listener()
	wantError(t, lifeline.EnvListener, err)
	if errors.Is(err, lifeline.ErrNoListener) {
		t.Errorf("got %v, want another error: something was handed over", err)
	}
	t.Setenv(lifeline.EnvListener, "2")
	_, err = lifeline.Listener()
	wantError(t, lifeline.EnvListener, err)
}
