package testenv_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// echo is a service that returns what it receives, behind a network; client is connected to it.
func echo(t *testing.T) (network *testenv.Network, client net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends when the listener is closed
		for {
			conn, acceptErr := listener.Accept()
			if acceptErr != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	network = testenv.NewNetwork(t, "tcp://"+listener.Addr().String())
	client, err = net.Dial("tcp", network.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return network, client
}

// answer sends text and returns what has come back within that time.
func answer(t *testing.T, client net.Conn, text string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(client, text); err != nil {
		return "", err
	}
	_ = client.SetReadDeadline(time.Now().Add(within))
	got := make([]byte, len(text))
	n, err := io.ReadFull(client, got)
	return string(got[:n]), err
}

const soon, never = 10 * time.Second, 100 * time.Millisecond

// Data sent over a cut network arrives once the network is healed; each direction can be stalled alone.
func TestNetwork_Cut_NothingPassesUntilHealed(t *testing.T) {
	t.Parallel()
	for _, ways := range [][]testenv.Direction{{testenv.ToServer}, {testenv.ToClient}, {testenv.ToServer, testenv.ToClient}} {
		network, client := echo(t)
		if got, err := answer(t, client, "before", soon); err != nil || got != "before" {
			t.Fatalf("got %q, %v, want before", got, err)
		}
		network.Stall(ways...)
		if got, err := answer(t, client, "lost", never); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stalled %v: got %q, %v, want a timeout", ways, got, err)
		}
		network.Heal()
		if got, err := answer(t, client, "", soon); err != nil {
			t.Errorf("healed: got %q, %v", got, err)
		}
		_ = client.SetReadDeadline(time.Now().Add(soon))
		late := make([]byte, len("lost"))
		if _, err := io.ReadFull(client, late); err != nil || string(late) != "lost" {
			t.Errorf("healed: got %q, %v, want what was stalled", late, err)
		}
	}
}

// At its limit a network drops the connection in the middle of the data.
func TestNetwork_Limit_DropsInTheMiddle(t *testing.T) {
	t.Parallel()
	network, client := echo(t)
	network.Limit(testenv.ToClient, 3)
	if got, err := answer(t, client, "abcdef", soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 3 {
		t.Errorf("got %q, %v, want at most abc and the end", got, err)
	}
}

// A slow network delays and slices data, but loses and reorders nothing.
func TestNetwork_Slow_DelaysAndKeepsOrder(t *testing.T) {
	t.Parallel()
	const latency = 50 * time.Millisecond
	network, client := echo(t)
	network.Slow(testenv.Slowness{Latency: latency, Jitter: latency, Slice: 7})
	text := bytes.Repeat([]byte("0123456789"), 100)
	begun := time.Now()
	got, err := answer(t, client, string(text), soon)
	if err != nil || got != string(text) {
		t.Errorf("got %q, %v, want what was sent", got, err)
	}
	if took := time.Since(begun); took < 2*latency {
		t.Errorf("took %v, want at least %v for both ways", took, 2*latency)
	}
}

// Connections over an abandoned network are dropped, including future ones.
func TestNetwork_Abandon_DropsAll(t *testing.T) {
	t.Parallel()
	network, client := echo(t)
	network.Abandon()
	if got, err := answer(t, client, "x", soon); err == nil {
		t.Errorf("got %q, want an error", got)
	}
	again, err := net.Dial("tcp", network.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got, err := answer(t, again, "x", soon); err == nil {
		t.Errorf("new connection: got %q, want an error", got)
	}
}

// A network fault limited to one process does not affect other processes, whether they connected before or after.
func TestNetwork_Only_SparesOthers(t *testing.T) {
	t.Parallel()
	network, client := echo(t)
	if _, err := answer(t, client, "before", soon); err != nil {
		t.Fatal(err)
	}
	network.Cut()
	network.Only(1) // not this process
	if got, err := answer(t, client, "spared", soon); err != nil || got != "spared" {
		t.Errorf("another's network is cut: got %q, %v, want spared", got, err)
	}
	network.Only(os.Getpid())
	if got, err := answer(t, client, "lost", never); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ours is cut: got %q, %v, want a timeout", got, err)
	}
	again, err := net.Dial("tcp", network.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got, err := answer(t, again, "lost", never); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("connected again: got %q, %v, want a timeout", got, err)
	}
}
