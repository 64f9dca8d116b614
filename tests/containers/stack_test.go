package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	// wholeLimit bounds how long the stack may take to recover by itself: the start of RabbitMQ on a busy machine, and the
	// reconnections after it.
	wholeLimit = 3 * time.Minute
	callLimit  = 30 * time.Second
)

// services are the containers of docker-compose.yml; the last two keep connections of all workers.
var services = []string{"gateway", "users", "rides", "orchestrator", "launcher", "persdb", "rabbitmq", "zookeeper"}

// stack is one project of docker-compose.yml.
type stack struct {
	project               string
	gateway, orchestrator string // base URLs
	prometheus            string
	root, dir             string   // of the checkout; of what `make up` keeps
	extra                 []string // services beside those that every stack has
	env                   []string
	client                *http.Client
	authorization         string   // header of each request; "" for none
	failed                []string // tests of other folders that failed on this stack
}

func newStack(t *testing.T) *stack {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	gateway, orchestrator, prometheus := testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t)
	s := &stack{
		dir:     filepath.Join(t.TempDir(), "stack"),
		project: fmt.Sprintf("rstest-%d-%s", os.Getpid(), strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))), root: root, client: &http.Client{Timeout: callLimit},
		gateway: "http://127.0.0.1:" + gateway, orchestrator: "http://127.0.0.1:" + orchestrator, prometheus: "http://127.0.0.1:" + prometheus,
		extra: []string{"prometheus"},
	}
	s.env = append(os.Environ(),
		"PROJECT="+s.project, "STACK_DIR="+s.dir, "GATEWAY_PORT="+gateway, "ORCHESTRATOR_PORT="+orchestrator,
		"OBSERVE=1", "PROMETHEUS_PORT="+prometheus, "GRAFANA_PORT="+testenv.FreePort(t),
		"BIND=127.0.0.1", "AUTH=off", "SLAVES=1", "SCALE_PERIOD=1h", "HUNG_AFTER=5s", "RIDESHARE_SESSION=20s", "RIDESHARE_IMAGE=rideshare/rideshare:"+s.project,
	)
	t.Cleanup(func() {
		s.clear(t)
	})
	return s
}

// run runs a command in the checkout, as a user of this stack would, and returns what it prints.
func (s *stack) run(ctx context.Context, name string, args ...string) (string, error) {
	return testenv.Command(ctx, s.root, s.env, name, args...)
}

// docker runs the docker command, which must succeed.
func (s *stack) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.run(t.Context(), "docker", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// up makes the images with `make images`, then runs `make up` and waits until the stack is whole. It logs how long each
// command took.
func (s *stack) up(t *testing.T) {
	t.Helper()
	for _, target := range []string{"images", "up"} {
		begun := time.Now()
		out, err := s.run(t.Context(), "make", "--no-print-directory", target)
		if err != nil {
			s.keepLogs(t, "up")
			t.Fatal(err)
		}
		t.Logf("TIME make %s: %.1f s", target, time.Since(begun).Seconds())
		for _, want := range []string{s.gateway, s.orchestrator, s.prometheus, "curl"} {
			if target == "up" && !strings.Contains(out, want) {
				t.Errorf("make up does not print %s: %s", want, out)
			}
		}
	}
	s.awaitWhole(t)
}

// container has the fields of `docker inspect` that the tests use.
type container struct {
	ID      string `json:"Id"`
	Created time.Time
	Name    string
	State   struct {
		Pid    int
		Status string
		Health *struct{ Status string }
	}
	Config struct {
		Image  string
		User   string
		Env    []string
		Labels map[string]string
	}
	HostConfig struct {
		ReadonlyRootfs, Privileged   bool
		CapAdd, CapDrop, SecurityOpt []string
		Memory, NanoCpus, PidsLimit  int64
		RestartPolicy                struct{ Name string }
		LogConfig                    struct{ Config map[string]string }
	}
	Mounts          []struct{ Type, Source, Destination string }
	NetworkSettings struct {
		Ports    map[string][]struct{ HostIp string }
		Networks map[string]struct{ IPAddress string }
	}
}

func (c container) service() string { return c.Config.Labels["com.docker.compose.service"] }

// ids returns the objects of a kind (container, network, volume) that belong to the project.
func (s *stack) ids(t *testing.T, kind string, filters ...string) []string {
	t.Helper()
	args := []string{kind, "ls", "-q", "--filter", "label=com.docker.compose.project=" + s.project}
	if kind == "container" {
		args = append(args, "-a", "--no-trunc")
	}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	return strings.Fields(s.docker(t, args...))
}

// containers returns the containers of the stack, including workers. A container that disappears during the call is
// left out.
func (s *stack) containers(t *testing.T, filters ...string) []container {
	t.Helper()
	ids := s.ids(t, "container", filters...)
	if len(ids) == 0 {
		return nil
	}
	text, err := s.run(t.Context(), "docker", append([]string{"inspect"}, ids...)...)
	if err != nil && !strings.Contains(err.Error(), "No such") {
		t.Fatal(err)
	}
	var all []container
	if err = json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("docker inspect: %v: %s", err, text)
	}
	return all
}

// of returns the one container of a service.
func (s *stack) of(t *testing.T, service string) container {
	t.Helper()
	all := s.containers(t, "label=com.docker.compose.service="+service)
	if len(all) != 1 {
		t.Fatalf("%s: got %d containers, want 1", service, len(all))
	}
	return all[0]
}

// address returns a service's address in a network.
func (s *stack) address(t *testing.T, service, network string) string {
	t.Helper()
	return s.of(t, service).NetworkSettings.Networks[s.project+"_"+network].IPAddress
}

// workers returns the running worker containers.
func (s *stack) workers(t *testing.T) []container {
	t.Helper()
	return s.containers(t, "label=com.docker.compose.service=worker", "status=running")
}

// try sends a request, with headers by name and value, and returns status and body.
func (s *stack) try(ctx context.Context, method, url, body string, headers ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if s.authorization != "" {
		req.Header.Set("Authorization", s.authorization)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// call is try for a request that must be answered with status 200.
func (s *stack) call(t *testing.T, method, url, body string) string {
	t.Helper()
	status, text, err := s.try(t.Context(), method, url, body)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s %s: got %d %s (%v), want 200", method, url, status, text, err)
	}
	return text
}

// member is a worker in the answer of GET cluster.
type member struct {
	PID       int
	Role      string
	Container string
	Ready     bool
}

// cluster is the answer of GET cluster.
type cluster struct {
	Members       []member
	ClusterID     string `json:"cluster_id"`
	Epoch         uint64
	DesiredSlaves int `json:"desired_slaves"`
}

func (s *stack) cluster(ctx context.Context) (cluster, error) {
	var c cluster
	status, text, err := s.try(ctx, http.MethodGet, s.orchestrator+"/api/v1/cluster", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("cluster: %d %s", status, text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &c)
	}
	return c, err
}

// member returns the ready worker of that role that was started last.
func (s *stack) member(t *testing.T, role string) member {
	t.Helper()
	var found member
	testenv.Eventually(t, wholeLimit, func() error {
		c, err := s.cluster(t.Context())
		for _, m := range c.Members {
			if m.Role == role && m.Ready {
				found = m
			}
		}
		if found.PID == 0 {
			return fmt.Errorf("no %s in %+v: %w", role, c, err)
		}
		return nil
	})
	return found
}

// awaitWhole waits until every container is healthy, there are exactly the wanted workers, a read and a write through
// the gateway work, and `rideshare check` finds nothing wrong.
func (s *stack) awaitWhole(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error { return s.whole(t) })
}

func (s *stack) whole(t *testing.T) error {
	t.Helper()
	for _, c := range s.containers(t) {
		if c.service() != "worker" && (c.State.Health == nil || c.State.Health.Status != "healthy") {
			return fmt.Errorf("%s is %s, not healthy", c.Name, c.State.Status)
		}
	}
	c, err := s.cluster(t.Context())
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		if !m.Ready {
			return fmt.Errorf("not ready: %+v", m)
		}
	}
	if workers := len(s.ids(t, "container", "label=com.docker.compose.service=worker")); len(c.Members) != c.DesiredSlaves+1 || workers != len(c.Members) {
		return fmt.Errorf("got %d containers of workers and members %+v, want %d slaves and a master", workers, c.Members, c.DesiredSlaves)
	}
	status, text, err := s.try(t.Context(), http.MethodDelete, s.gateway+"/api/v1/users/nobody", "")
	if err != nil || status != http.StatusBadRequest {
		return fmt.Errorf("a write: got %d %s (%w), want 400", status, text, err)
	}
	status, text, err = s.try(t.Context(), http.MethodGet, s.gateway+"/api/v1/rides/count", "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("a read: got %d %s (%w), want 200", status, text, err)
	}
	_, err = s.run(t.Context(), filepath.Join(s.root, "bin", "image", "rideshare"), "check", "--orchestrator", s.orchestrator)
	return err
}

// keepLogs writes the logs of all containers into a directory and says where.
func (s *stack) keepLogs(t *testing.T, phase string) {
	t.Helper()
	dir := filepath.Join(s.root, "bin", "containers-"+s.project, phase)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Log(err)
		return
	}
	out, err := s.run(context.Background(), "docker", "ps", "-a", "--filter", "label=com.docker.compose.project="+s.project, "--format", "{{.Names}}")
	if err != nil {
		t.Log(err)
	}
	for name := range strings.FieldsSeq(out) {
		text, err := s.run(context.Background(), "docker", "logs", "-t", name)
		if err != nil {
			text += err.Error()
		}
		if err = os.WriteFile(filepath.Join(dir, name+".log"), []byte(text), 0o600); err != nil {
			t.Log(err)
		}
	}
	t.Logf("logs of all containers are in %s", dir)
}

// clear removes the stack whatever the test did, and its image.
func (s *stack) clear(t *testing.T) {
	t.Helper()
	if _, err := s.run(context.Background(), "make", "--no-print-directory", "down", "VOLUMES=1"); err != nil {
		t.Error(err)
	}
	if _, err := s.run(context.Background(), "docker", "image", "rm", "rideshare/rideshare:"+s.project); err != nil {
		t.Error(err)
	}
}
