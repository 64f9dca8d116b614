package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"rideshare/bench/startedservices"
)

// Service is a service for one test, which may break it. It ends with the test, even if the test's
// process is killed. Its methods fail the test passed to them, and are not safe for concurrent use.
type Service struct {
	// URL stays the same across Kill, Wipe and Start.
	URL string

	own *instance
}

// StartRabbitMQ starts a RabbitMQ for this test. A first start takes some 10 s.
func StartRabbitMQ(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, rabbitMQ, "RABBITMQ_URL")
}

// StartZooKeeper starts a ZooKeeper for this test, with tickTime 1 s and sessions of 2 s to 20 s. A start takes some 2 s.
func StartZooKeeper(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, zooKeeper, "ZOOKEEPER_URL")
}

// Postgres is a PostgreSQL primary with a synchronous standby, for one test. The URL of Primary has both.
type Postgres struct {
	Primary, Standby *Service
	// PasswordFile holds the password of the user in the URL, a superuser.
	PasswordFile string
}

// StartPostgres starts a PostgreSQL with a standby for this test. A start takes some 5 s. Start of either starts both, if
// they do not run.
func StartPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	primary := startService(tb, postgres, "POSTGRES_URL")
	return &Postgres{
		Primary: primary, Standby: primary.beside(tb, pgStandby, "PGSTANDBY_URL"),
		PasswordFile: primary.value(tb, "POSTGRES_PASSWORD_FILE"),
	}
}

// StartSecond starts a second standby; the primary waits for either. It ends with the primary.
func (p *Postgres) StartSecond(tb testing.TB) *Service {
	tb.Helper()
	second := p.Primary.beside(tb, pgSecond, "")
	second.Start(tb)
	second.URL = second.value(tb, "PGSTANDBY2_URL")
	return second
}

// beside returns a service that runs beside s. variable is that of its URL.
func (s *Service) beside(tb testing.TB, name, variable string) *Service {
	tb.Helper()
	other := *s.own
	other.name = name
	return &Service{URL: s.value(tb, variable), own: &other}
}

// value returns a variable of the service and what runs beside it.
func (s *Service) value(tb testing.TB, variable string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(s.own.dir, "env"))
	if err != nil {
		tb.Fatal(err)
	}
	return startedservices.Value(string(text), variable)
}

func startService(tb testing.TB, name, variable string) *Service {
	tb.Helper()
	return startServiceIn(tb, name, variable, tb.TempDir())
}

func startServiceIn(tb testing.TB, name, variable, dir string) *Service {
	tb.Helper()
	own, err := startInstance(tb.Context(), name, dir)
	if err != nil {
		missing(tb, variable, err)
	}
	return serviceOf(tb, own)
}

// StartZooKeepers starts one server of an ensemble for each directory, all at once: a server answers only when a majority
// runs. zktest makes the directories.
func StartZooKeepers(tb testing.TB, dirs []string) []*Service {
	tb.Helper()
	all, err := startAll(tb, zooKeeper, dirs)
	if err != nil {
		missing(tb, "ZOOKEEPER_URL", err)
	}
	return all
}

// startAll starts a service in each directory, all at once.
func startAll(tb testing.TB, name string, dirs []string) ([]*Service, error) {
	tb.Helper()
	own, errs := make([]*instance, len(dirs)), make([]error, len(dirs))
	var starting sync.WaitGroup
	for i, dir := range dirs {
		starting.Go(func() { own[i], errs[i] = startInstance(tb.Context(), name, dir) })
	}
	starting.Wait()
	var all []*Service
	for _, one := range own {
		if one != nil {
			all = append(all, serviceOf(tb, one))
		}
	}
	return all, errors.Join(errs...)
}

// serviceOf returns an instance as a service that ends with the test.
func serviceOf(tb testing.TB, own *instance) *Service {
	tb.Helper()
	// Cleanups run after the test's context has ended.
	tb.Cleanup(func() {
		if stopErr := own.do(context.Background(), "stop"); stopErr != nil {
			tb.Errorf("clean up: %v", stopErr)
		}
	})
	return &Service{URL: own.url, own: own}
}

// Own reports whether the service belongs to this test. A service that does not has only a URL, and supports none of
// the methods below.
func (s *Service) Own() bool { return s.own != nil }

// Kill kills the service's processes with SIGKILL. Its data stays.
func (s *Service) Kill(tb testing.TB) {
	tb.Helper()
	s.do(tb, "kill")
}

// Wipe is Kill plus the loss of all data: Start then starts an empty service. Only ZooKeeper supports it.
func (s *Service) Wipe(tb testing.TB) {
	tb.Helper()
	s.do(tb, "wipe")
}

// Start restarts the service after Kill or Wipe, and returns when it answers. If it is running, Start does nothing.
func (s *Service) Start(tb testing.TB) {
	tb.Helper()
	s.do(tb, "start")
}

// Pause freezes the service's processes with SIGSTOP until Resume.
func (s *Service) Pause(tb testing.TB) {
	tb.Helper()
	s.do(tb, "pause")
}

// Resume ends a Pause.
func (s *Service) Resume(tb testing.TB) {
	tb.Helper()
	s.do(tb, "resume")
}

// Ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *Service) Ctl(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := s.own.ctl(tb.Context(), args...)
	if err != nil {
		tb.Fatalf("rabbitmqctl %v: %v", args, err)
	}
	return out
}

func (s *Service) do(tb testing.TB, verb string) {
	tb.Helper()
	if err := s.own.do(context.WithoutCancel(tb.Context()), verb); err != nil { // cleanups use it, too.
		tb.Fatal(err)
	}
}
