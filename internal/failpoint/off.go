//go:build !failpoint

package failpoint

// Hit performs the action that the point is armed with.
func Hit(Point) {}

// Fail is Hit for a point where an error is possible.
func Fail(Point) error { return nil }

// On reports whether the switch is on, so that its promise must be broken.
func On(Switch) bool { return false }

// Serve arms the points named in the environment and listens for requests until the process ends.
func Serve() error { return nil }
