package testenv

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// clusterSize is the number of nodes of StartRabbitMQCluster.
const clusterSize = 3

// clusterSettings are those of every node, besides the settings of a single one.
const clusterSettings = `cluster_partition_handling = pause_minority
net_ticktime = 8
raft.wal_max_size_bytes = 64000000
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = n0@localhost
cluster_formation.classic_config.nodes.2 = n1@localhost
cluster_formation.classic_config.nodes.3 = n2@localhost
`

// StartRabbitMQCluster starts three RabbitMQ nodes of one cluster for this test, with equal users and passwords. All have
// the host 127.0.0.1 and a port each. It takes some 20 s.
func StartRabbitMQCluster(tb testing.TB) []*Service {
	tb.Helper()
	password, cookie := rand.Text(), rand.Text()
	dirs := make([]string, clusterSize)
	for i := range dirs {
		dirs[i] = tb.TempDir()
		if err := writeFiles(filepath.Join(dirs[i], rabbitMQ), map[string]string{
			"name": fmt.Sprintf("n%d", i), "password": password, ".erlang.cookie": cookie, "conf.d/cluster.conf": clusterSettings,
		}); err != nil {
			tb.Fatal(err)
		}
	}
	// The first node's epmd serves all. It ends with the first node, which is stopped last.
	nodes := []*Service{startServiceIn(tb, rabbitMQ, "RABBITMQ_URL", dirs[0])}
	for _, dir := range dirs[1:] {
		if err := copyFiles(filepath.Join(dir, rabbitMQ), filepath.Join(dirs[0], rabbitMQ), "epmd.pid", "epmd.port"); err != nil {
			tb.Fatal(err)
		}
	}
	others, err := startAll(tb, rabbitMQ, dirs[1:])
	if err != nil {
		tb.Fatalf("start a cluster: %v", err)
	}
	return append(nodes, others...)
}

// writeFiles writes files that only their owner may read, as Erlang wants its cookie.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("prepare a node: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("prepare a node: %w", err)
		}
	}
	return nil
}

func copyFiles(to, from string, names ...string) error {
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name)) //nolint:gosec // a file of this test
		if err != nil {
			return fmt.Errorf("prepare a node: %w", err)
		}
		files[name] = string(text)
	}
	return writeFiles(to, files)
}
