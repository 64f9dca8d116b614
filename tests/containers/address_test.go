package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/testenv"
)

// newAddress replaces the container of a service by another one with another address. Parts that were connected find the new
// container only if they resolve its name again. No worker ends, and none changes its role.
func (s *stack) newAddress(t *testing.T, service string) {
	t.Helper()
	before := s.knownCluster(t)
	old := s.of(t, service)
	address := s.address(t, service, "data")
	s.docker(t, "rm", "-f", old.ID)
	s.take(t, address, old.Config.Image)
	s.set(t)
	if now := s.address(t, service, "data"); now == address {
		t.Fatalf("%s has its old address %s again", service, now)
	}
	s.awaitWhole(t)
	if diff := cmp.Diff(before, s.knownCluster(t)); diff != "" {
		t.Errorf("cluster after %s had another address (-before +after):\n%s", service, diff)
	}
}

// knownCluster is cluster. The answer has no id if persdb has not told it in time: then the request is repeated.
func (s *stack) knownCluster(t *testing.T) (c cluster) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() (err error) {
		if c, err = s.cluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.ClusterID == "" {
			err = errors.New("persdb has not told its id in time")
		}
		return err
	})
	return c
}

// take gives an address in the data network to a container that does nothing, until the test ends. The engine assigns the
// lowest free address, so take may first have to occupy others.
func (s *stack) take(t *testing.T, address, image string) {
	t.Helper()
	for range 20 {
		id := s.docker(t, "run", "-d", "--rm", "--network", s.project+"_data", "--entrypoint", "sleep", image, "600")
		t.Cleanup(func() { _, _ = s.run(context.Background(), "docker", "rm", "-f", id) })
		if s.docker(t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id) == address {
			return
		}
	}
}

// testZooKeeperElsewhere gives ZooKeeper another address. No request is refused in that time, and the parts reconnect: when
// the master dies afterwards, another one takes over.
func (s *stack) testZooKeeperElsewhere(t *testing.T, w *writer) {
	t.Helper()
	connected, refused := s.connections(t), w.refused()
	s.newAddress(t, "zookeeper")
	testenv.Eventually(t, wholeLimit, func() error {
		if now := s.connections(t); now < connected {
			return fmt.Errorf("ZooKeeper has %d connections, want %d as before", now, connected)
		}
		return nil
	})
	if n := w.refused() - refused; n > 0 {
		t.Errorf("%d writes were refused while ZooKeeper was away, want none", n)
	}
	before := s.knownCluster(t)
	s.crash(t, "master")
	testenv.Eventually(t, wholeLimit, func() error {
		after, err := s.cluster(t.Context())
		if err == nil && after.Epoch == before.Epoch {
			err = fmt.Errorf("no master after the one of epoch %d", after.Epoch)
		}
		return err
	})
}

// connections returns how many connections ZooKeeper has, including the one over which this is asked.
func (s *stack) connections(t *testing.T) (n int) {
	t.Helper()
	text := s.docker(t, "exec", s.of(t, "zookeeper").ID, "sh", "-c", "echo srvr | nc -w 2 127.0.0.1 2181")
	_, found, _ := strings.Cut(text, "\nConnections: ")
	if _, err := fmt.Sscan(found, &n); err != nil {
		t.Fatalf("%q has no number of connections: %v", text, err)
	}
	return n
}
