package testenv

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// The ports of FreeAddress. The kernel takes those of connections, and of listeners that name none, from 32768 on.
const (
	lowestPort  = 16_000 // RabbitMQ listens at 15672, 15692 and 25672
	highestPort = 25_000
)

// FreeAddress returns a loopback address at which nobody listens, for a process that has to be told its address before it
// starts, or that starts again at the same address. The kernel gives its port to nobody meanwhile.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	for {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // a port is no secret.
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		if err = listener.Close(); err != nil {
			tb.Fatal(err)
		}
		return address
	}
}

// FreePort returns the port of a FreeAddress.
func FreePort(tb testing.TB) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return port
}
