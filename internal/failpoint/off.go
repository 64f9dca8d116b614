//go:build !failpoint

package failpoint

import (
	"context"
	"errors"
)

// Hit performs the action that the point is armed with.
func Hit(Point) {}

// Fail is Hit for a point where an error is possible.
func Fail(Point) error { return nil }

// On reports whether the switch is on. If so, the caller must break the promise.
func On(Switch) bool { return false }

// Arm arms a point in another process.
func Arm(context.Context, int, Point, Action) error {
	return errors.New("this binary has no points at which a process can be made to hang: build it with -tags failpoint")
}

// Serve arms the points named in the environment and listens for requests until the process ends.
func Serve() error { return nil }
