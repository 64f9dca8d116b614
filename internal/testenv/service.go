package testenv

import (
	"context"
	"testing"

	"rideshare/internal/services"
)

// Service is a RabbitMQ or ZooKeeper of a test's own, which it may break. It ends
// with the test, also when the test's process is killed. Its methods fail the
// test that they are given, and are not safe for concurrent use.
type Service struct {
	// URL stays the same over Kill, Wipe and Start.
	URL string

	own *services.Service
}

// StartRabbitMQ starts a RabbitMQ for this test. A first start takes some 10 s.
func StartRabbitMQ(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, services.RabbitMQ, "RABBITMQ_URL")
}

// StartZooKeeper starts a ZooKeeper for this test, with tickTime 1 s and sessions of 2 s to 20 s. A start takes some 2 s.
func StartZooKeeper(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, services.ZooKeeper, "ZOOKEEPER_URL")
}

func startService(tb testing.TB, name, variable string) *Service {
	tb.Helper()
	// A test run installs nothing; `make services` does.
	own, err := services.Start(tb.Context(), services.Config{Name: name, Dir: tb.TempDir()})
	if err != nil {
		missing(tb, variable, err)
	}
	// Cleanups run when the test's context is over.
	tb.Cleanup(func() {
		if stopErr := own.Stop(context.Background()); stopErr != nil {
			tb.Errorf("clean up: %v", stopErr)
		}
	})
	return &Service{URL: own.URL, own: own}
}

// Own reports whether the service is this test's own. One that is not has a URL only, and
// none of the methods below.
func (s *Service) Own() bool { return s.own != nil }

// Kill ends the service's process with SIGKILL. Its data stays.
func (s *Service) Kill(tb testing.TB) {
	tb.Helper()
	must(tb, s.own.Kill)
}

// Wipe is Kill, and the loss of all data: Start starts an empty one. Only ZooKeeper has it.
func (s *Service) Wipe(tb testing.TB) {
	tb.Helper()
	must(tb, s.own.Wipe)
}

// Start starts it again after Kill or Wipe, and returns when it answers. One that runs is no error.
func (s *Service) Start(tb testing.TB) {
	tb.Helper()
	must(tb, s.own.Start)
}

// Pause freezes its process with SIGSTOP until Resume.
func (s *Service) Pause(tb testing.TB) {
	tb.Helper()
	must(tb, s.own.Pause)
}

// Resume ends what Pause began.
func (s *Service) Resume(tb testing.TB) {
	tb.Helper()
	must(tb, s.own.Resume)
}

// Ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *Service) Ctl(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := s.own.Ctl(tb.Context(), args...)
	if err != nil {
		tb.Fatalf("rabbitmqctl %v: %v", args, err)
	}
	return out
}

func must(tb testing.TB, verb func(context.Context) error) {
	tb.Helper()
	if err := verb(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}
