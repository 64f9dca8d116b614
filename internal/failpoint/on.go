//go:build failpoint

package failpoint

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// process is the registry of this process. It is global because the points are in code that a test cannot pass a value
// to.
var process = newRegistry()

// Hit performs the action that the point is armed with.
func Hit(p Point) { _ = process.hit(string(p)) } // arm refuses Error for these points

// Fail is Hit for a point where an error is possible.
func Fail(p Point) error { return process.hit(string(p)) }

// On reports whether the switch is on. If so, the caller must break the promise.
func On(s Switch) bool { return process.state(string(s)).Action == TurnOn }

// Arm arms a point in another process, which listens in the same directory as this one.
func Arm(ctx context.Context, pid int, p Point, a Action) error {
	dir := os.Getenv(EnvDir)
	if dir == "" {
		return fmt.Errorf("%s is not set: it must name a directory for sockets, with a short path", EnvDir)
	}
	_, err := Request(ctx, Socket(dir, pid), http.MethodPut, string(p), string(a))
	return err
}

// Serve arms the points named in the environment and listens for requests until the process ends.
func Serve() error {
	if err := process.armAll(os.Getenv(EnvArm)); err != nil {
		return fmt.Errorf("%s: %w", EnvArm, err)
	}
	dir := os.Getenv(EnvDir)
	if dir == "" {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "unix", Socket(dir, os.Getpid()))
	if err != nil {
		return fmt.Errorf("%s: %w", EnvDir, err)
	}
	server := &http.Server{Handler: process, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the process
	return nil
}
