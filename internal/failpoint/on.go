//go:build failpoint

package failpoint

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// process is the registry of this process. It is global because the points are in code that a test cannot pass a value
// to.
var process = newRegistry()

// Hit performs the action that the point is armed with.
func Hit(p Point) { _ = process.hit(string(p)) } // arm refuses errors here

// Fail is Hit for a point where an error is possible.
func Fail(p Point) error { return process.hit(string(p)) }

// On reports whether the switch is on, so that its promise must be broken.
func On(s Switch) bool { return process.state(string(s)).Action == TurnOn }

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
	listener, err := config.Listen(context.Background(), "unix", filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
	if err != nil {
		return fmt.Errorf("%s: %w", EnvDir, err)
	}
	server := &http.Server{Handler: process, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the process
	return nil
}
