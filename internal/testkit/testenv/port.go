package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
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
// starts, or that starts again at the same address. Until the test ends, neither the kernel nor FreeAddress gives its port
// to anybody else, in whatever process.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	for {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // a port is no secret.
		if !hold(tb, port) {
			continue
		}
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

// hold locks a file for the port until the test ends. It returns false if another test has it.
func hold(tb testing.TB, port int) bool {
	tb.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("rideshare-test-port-%d", port))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a name of our own.
	if errors.Is(err, os.ErrPermission) {                     // It was left behind by another user.
		return false
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // the error of the lock says enough.
		return false
	}
	locked, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(locked, there) {
		_ = f.Close() // another test had the port, and has removed this file since.
		return false
	}
	tb.Cleanup(func() { _ = errors.Join(os.Remove(path), f.Close()) }) // a file that stays is not locked.
	return true
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
