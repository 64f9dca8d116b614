// Package conformance is what the conformance suites of the bus, the coordinator and the launchers share.
package conformance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/testenv"
)

// Suite is the state of one test. Each suite embeds it beside its own world.
type Suite struct {
	*testing.T
	// Patience bounds the wait for what must happen.
	Patience time.Duration
}

// Run runs a test as a subtest. In a bubble (testing/synctest) it takes no time, and proves that no goroutine is left;
// that needs an implementation without sockets.
func Run(t *testing.T, name string, bubble bool, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if bubble {
			synctest.Test(t, test)
		} else {
			test(t)
		}
	})
}

// Eventually waits until check returns nil.
func (s *Suite) Eventually(check func() error) {
	s.Helper()
	testenv.Eventually(s.T, s.Patience, check)
}

// WantError ends the test unless got wraps want.
func (s *Suite) WantError(what string, got, want error) {
	s.Helper()
	if !errors.Is(got, want) {
		s.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

// Pass waits for d, in tests about time itself.
func (s *Suite) Pass(d time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// Receive returns the next value from c, or the zero value if c is closed.
func Receive[T any](s *Suite, what string, c <-chan T) T {
	s.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(s.Patience):
		s.Fatalf("no %s came", what)
		panic("not reached")
	}
}
