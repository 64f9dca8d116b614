package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// loss is a way to lose a host.
type loss string

const (
	kill  loss = "kill"  // all its processes end
	pause loss = "pause" // all its processes stop, and continue later
	cut   loss = "cut"   // no packet passes between it and the other two
)

const (
	// readLimit and writeLimit bound one try of a request at one host. A host that runs is asked to answer early: a try without an
	// answer closes its connection, and TLS handshakes take cores that the hosts need.
	readLimit, writeLimit = 2 * time.Second, 5 * time.Second
	early                 = 100 * time.Millisecond
	// askLimit bounds a question of the test about a host's state. The test shares its cores with all hosts.
	askLimit = 10 * time.Second
)

// cluster is three hosts.
type cluster struct {
	root, dir     string // of the checkout; of what deploy/cluster/local.sh keeps
	began         time.Time
	env           []string
	hosts         []*host
	client        *http.Client
	authorization string
}

// host is one host: a container whose network its parts share, and a project of docker-compose.
type host struct {
	name, address, project string
}

// newCluster starts a cluster. It ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	project := fmt.Sprintf("rscluster-%d", os.Getpid())
	c := &cluster{root: root, dir: filepath.Join(root, ".cluster", project), began: time.Now(), env: append(os.Environ(), "PROJECT="+project, "SLAVES=2", "SCALE_PERIOD=1h", "RIDESHARE_IMAGE=rideshare/rideshare:"+project)}
	t.Cleanup(func() {
		if _, err := c.run(context.WithoutCancel(t.Context()), "./deploy/cluster/local.sh", "down"); err != nil {
			t.Error(err)
		}
		docker(t, "rmi", "rideshare/rideshare:"+project)
	})
	if _, err := c.run(t.Context(), "./deploy/cluster/local.sh", "up"); err != nil {
		c.findHosts(t, project)
		c.keepLogs(t, c.began)
		t.Fatal(err)
	}
	t.Logf("TIME up: %.1f s", time.Since(c.began).Seconds())
	c.findHosts(t, project)
	c.client = c.newClient(t)
	credentials := strings.Fields(c.read(t, "api-credentials"))
	c.authorization = "Bearer " + credentials[len(credentials)-1]
	c.awaitWhole(t)
	return c
}

func (c *cluster) findHosts(t *testing.T, project string) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		h := &host{name: name, project: project + "-" + name}
		h.address = docker(t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", h.project)
		c.hosts = append(c.hosts, h)
	}
}

func (c *cluster) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newClient returns a client with the certificate of a host, as persdb wants one.
func (c *cluster) newClient(t *testing.T) *http.Client {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.dir, "a", "tls", "cert.pem"), filepath.Join(c.dir, "a", "tls", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.read(t, "ca.pem"))) {
		t.Fatal("ca.pem has no certificate")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // Its type is documented.
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) // most handshakes cost no signature: the client shares the hosts' cores
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	transport.TLSHandshakeTimeout = readLimit // so that few handshakes wait for a paused host, and it does not get hundreds when it continues
	transport.ForceAttemptHTTP2 = false       // a paused host would hold all requests of a connection
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// run runs a command in the checkout, and returns what it prints.
func (c *cluster) run(ctx context.Context, name string, args ...string) (string, error) {
	return testenv.Command(ctx, c.root, c.env, name, args...)
}

// docker runs the docker command, which must succeed.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryDocker(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryDocker(ctx context.Context, args ...string) (string, error) {
	out, err := testenv.Command(ctx, "", nil, "docker", args...)
	return strings.TrimSpace(out), err
}

// containers returns the containers of a host's parts.
func (h *host) containers(t *testing.T) []string {
	t.Helper()
	return strings.Fields(docker(t, "ps", "-aq", "--filter", "label=com.docker.compose.project="+h.project))
}

func (h *host) container(t *testing.T, service string) string {
	t.Helper()
	return docker(t, "ps", "-aq", "--filter", "label=com.docker.compose.project="+h.project, "--filter", "label=com.docker.compose.service="+service)
}

// pid returns a process in the host's network.
func (h *host) pid(t *testing.T) string {
	t.Helper()
	return docker(t, "inspect", "-f", "{{.State.Pid}}", h.project)
}

// exec runs a command in the container of a service.
func (h *host) exec(t *testing.T, service string, args ...string) (string, error) {
	t.Helper()
	return tryDocker(t.Context(), append([]string{"exec", h.container(t, service)}, args...)...)
}

// strike loses a host.
func (c *cluster) strike(t *testing.T, kind loss, h *host) {
	t.Helper()
	switch kind {
	case kill:
		docker(t, append([]string{"kill"}, h.containers(t)...)...)
	case pause:
		docker(t, append([]string{"pause"}, h.containers(t)...)...)
	case cut:
		c.packets(t, h, "-A")
	}
}

// heal brings a host back.
func (c *cluster) heal(t *testing.T, kind loss, h *host) {
	t.Helper()
	switch kind {
	case kill:
		docker(t, append([]string{"start"}, h.containers(t)...)...)
	case pause:
		docker(t, append([]string{"unpause"}, h.containers(t)...)...)
	case cut:
		c.packets(t, h, "-D")
	}
}

// packets adds (-A) or removes (-D) the rules that drop all packets between a host and the other two.
func (c *cluster) packets(t *testing.T, h *host, verb string) {
	t.Helper()
	for _, other := range c.hosts {
		if other == h {
			continue
		}
		for _, rule := range [][]string{{"INPUT", "-s"}, {"OUTPUT", "-d"}} {
			if _, err := c.run(context.WithoutCancel(t.Context()), "nsenter", "-t", h.pid(t), "-n", "iptables", "-w", verb, rule[0], rule[1], other.address, "-j", "DROP"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// promote promotes a standby of the lost host's PostgreSQL, as an operator or a tool like Patroni does, and returns how long that took.
func (c *cluster) promote(t *testing.T, lost *host) time.Duration {
	t.Helper()
	begun, on := time.Now(), c.others(lost)[0]
	testenv.Eventually(t, backLimit, func() error {
		_, err := c.run(t.Context(), "nsenter", "-t", on.pid(t), "-n", "./deploy/cluster/cluster.sh", "promote", filepath.Join(c.dir, on.name), lost.name)
		return err
	})
	return time.Since(begun)
}

func (c *cluster) others(h *host) []*host {
	var all []*host
	for _, other := range c.hosts {
		if other != h {
			all = append(all, other)
		}
	}
	return all
}

// keepLogs keeps what all containers have logged since a time.
func (c *cluster) keepLogs(t *testing.T, since time.Time) {
	t.Helper()
	f, err := testenv.Artefact("cluster-*.log")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = f.Close() }()
	for _, h := range c.hosts {
		for _, id := range h.containers(t) {
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", "logs", "--timestamps", "--since", since.Format(time.RFC3339Nano), id)
			cmd.Stdout, cmd.Stderr = f, f
			_, err := fmt.Fprintf(f, "== %s %s\n", h.name, docker(t, "inspect", "-f", "{{.Name}} {{.State.Status}}", id))
			if err = errors.Join(err, cmd.Run()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("logs of all containers since %s: %s", since.Format(time.TimeOnly), f.Name())
}
