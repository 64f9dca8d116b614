package containers

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/testenv"
)

// userOf returns the user and the group as which the containers of a service run.
func userOf(service string) string {
	switch service {
	case "rabbitmq", "postgres1", "postgres2":
		return "999:999"
	case "zookeeper":
		return "1000:1000"
	case "prometheus":
		return "65534:65534"
	case "grafana":
		return "472:0"
	default:
		return "65532:65532"
	}
}

// secretsOf returns the secrets that the containers of a service have, sorted.
func secretsOf(service string) []string {
	return map[string][]string{
		"users": {"api-credentials"}, "rides": {"api-credentials"}, "orchestrator": {"api-credentials", "launcher-token", "orchestrator-bus"},
		"launcher": {"launcher-token"}, "persdb": {"archive-key", "postgres-log"}, "rabbitmq": {"rabbitmq-definitions.json"}, "worker": {"bus"},
		"postgres1": {"postgres-log", "postgres-superuser"}, "postgres2": {"postgres-log", "postgres-superuser"},
	}[service]
}

// Every container runs with no more rights than it needs, has only its own secrets, and does not show them.
func (s *stack) testInspect(t *testing.T) {
	t.Helper()
	secrets := s.secrets(t)
	seen := map[string]int{}
	for _, c := range s.containers(t) {
		service := c.service()
		seen[service]++
		t.Run(service, func(t *testing.T) {
			h := c.HostConfig
			if c.Config.User != userOf(service) {
				t.Errorf("user: got %q, want %s", c.Config.User, userOf(service))
			}
			if !h.ReadonlyRootfs || h.Privileged || len(h.CapAdd) > 0 || !slices.Equal(h.CapDrop, []string{"ALL"}) ||
				!slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, "no-new-privileges") }) {
				t.Errorf("rights: got %+v, want a read-only root, no capabilities, no new privileges", h)
			}
			if h.Memory <= 0 || h.NanoCpus <= 0 || h.PidsLimit <= 0 || h.LogConfig.Config["max-size"] == "" {
				t.Errorf("limits: got %+v, want one for memory, processors, threads and the log", h)
			}
			restart := "unless-stopped"
			if service == "worker" {
				restart = "no" // the orchestrator decides
			}
			if h.RestartPolicy.Name != restart {
				t.Errorf("restart: got %q, want %s", h.RestartPolicy.Name, restart)
			}
			var mounted []string
			for _, m := range c.Mounts {
				if name, ok := strings.CutPrefix(m.Destination, "/run/secrets/"); ok {
					mounted = append(mounted, name)
				}
				if strings.Contains(m.Destination, "docker.sock") != (service == "launcher" && m.Type == "bind" && !strings.Contains(m.Destination, "secrets")) {
					t.Errorf("mount %s: only the launcher has the engine's socket", m.Destination)
				}
			}
			slices.Sort(mounted)
			if diff := cmp.Diff(secretsOf(service), mounted); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(c.Config.Env)
			if err != nil {
				t.Fatal(err)
			}
			for name, secret := range secrets {
				if strings.Contains(string(text), secret) {
					t.Errorf("the environment has the secret %s", name)
				}
			}
		})
	}
	want := map[string]int{"worker": 2}
	for _, service := range slices.Concat(s.grafana(t), s.extra, services) {
		want[service] = 1
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// writeArchiveKey writes the keys of a bucket before the first start, as an operator does. The archive is a folder, so nothing
// reads them.
func (s *stack) writeArchiveKey(t *testing.T) {
	t.Helper()
	dir := filepath.Join(s.dir, "secrets")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "archive-key"), []byte("access\n"+strings.ToLower(rand.Text()+rand.Text())+"\n"), 0o444)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secrets are what must stay in the files: the passwords in the URLs, the tokens, the secret key of the archive's bucket.
func (s *stack) secrets(t *testing.T) map[string]string {
	t.Helper()
	secrets := map[string]string{}
	for _, name := range []string{"orchestrator-bus", "worker-bus", "launcher-token", "api-credentials", "archive-key", "postgres-superuser", "postgres-log"} {
		text, err := os.ReadFile(filepath.Join(s.dir, "secrets", name))
		if err != nil {
			t.Fatal(err)
		}
		secret := strings.TrimPrefix(strings.TrimSpace(string(text)), "bearer ")
		if rest, ok := strings.CutPrefix(secret, "amqp://"); ok {
			_, rest, _ = strings.Cut(rest, ":")
			secret, _, _ = strings.Cut(rest, "@")
		}
		secret = secret[strings.LastIndexByte(secret, '\n')+1:] // the second line of the keys of a bucket.
		if len(secret) < 32 {
			t.Errorf("secret %s has only %d characters", name, len(secret))
		}
		secrets[name] = secret
	}
	return secrets
}

// Every container is in the networks of the parts that it must reach, and can reach no other part.
func (s *stack) testNetworks(t *testing.T) {
	t.Helper()
	want := map[string][]string{
		"gateway": {"edge", "services"}, "users": {"services"}, "rides": {"services"}, "orchestrator": {"control", "data", "edge", "services"},
		"launcher": {"control"}, "persdb": {"data"}, "rabbitmq": {"data"}, "zookeeper": {"data"}, "worker": {"data"},
		"prometheus": {"control", "data", "edge", "services"}, "grafana": {"edge"},
	}
	for _, c := range s.containers(t) {
		var got []string
		for _, name := range slices.Sorted(maps.Keys(c.NetworkSettings.Networks)) {
			got = append(got, strings.TrimPrefix(name, s.project+"_"))
		}
		if diff := cmp.Diff(want[c.service()], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
	}
	for name, internal := range map[string]string{"edge": "false", "services": "true", "control": "true", "data": "true"} {
		if got := s.docker(t, "network", "inspect", "-f", "{{.Internal}}", s.project+"_"+name); got != internal {
			t.Errorf("network %s is internal: got %s, want %s", name, got, internal)
		}
	}
	var all sync.WaitGroup // names that are not found are looked up for seconds
	for _, c := range []struct {
		from, to string
		reached  bool
	}{
		{"orchestrator", "http://launcher:9600", true},
		{"orchestrator", "http://persdb:9530", true},
		{"worker", "http://persdb:9530", true},
		{"rides", "http://gateway:80", true},
		{"users", "http://orchestrator:9500", true},
		{"worker", "http://launcher:9600", false},
		{"users", "http://launcher:9600", false},
		{"gateway", "http://launcher:9600", false},
		{"gateway", "http://persdb:9530", false},
		{"rides", "http://persdb:9530", false},
		{"launcher", "http://persdb:9530", false},
		{"worker", "http://gateway:80", false},
	} {
		from := s.containers(t, "label=com.docker.compose.service="+c.from)[0]
		check := func() error {
			_, err := s.run(t.Context(), "docker", "exec", from.ID, "/rideshare", "healthcheck", c.to)
			return err
		}
		if c.reached {
			testenv.Eventually(t, wholeLimit, check)
			continue
		}
		all.Go(func() {
			if check() == nil {
				t.Errorf("%s reaches %s", c.from, c.to)
			}
		})
	}
	all.Wait()
}

// Only the gateway, the orchestrator, Prometheus and Grafana can be reached from outside, here from this machine alone.
func (s *stack) testPublished(t *testing.T) {
	t.Helper()
	got := map[string]string{}
	for _, c := range s.containers(t) {
		for port, on := range c.NetworkSettings.Ports {
			for _, at := range on {
				got[c.service()+" "+port] += at.HostIp
			}
		}
	}
	want := map[string]string{"gateway 80/tcp": "127.0.0.1", "orchestrator 9500/tcp": "127.0.0.1", "prometheus 9090/tcp": "127.0.0.1"}
	for _, service := range s.grafana(t) {
		want[service+" 3000/tcp"] = "127.0.0.1"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("published ports (-want +got):\n%s", diff)
	}
}
