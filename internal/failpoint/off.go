//go:build !failpoint

package failpoint

// Hit does what the point is armed for.
func Hit(Point) {}

// Fail is Hit where an error is possible.
func Fail(Point) error { return nil }

// On reports whether a promise is to be broken.
func On(Switch) bool { return false }

// Serve arms points from the environment and listens for requests until the process ends.
func Serve() error { return nil }
