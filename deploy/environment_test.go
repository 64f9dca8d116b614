package deploy_test

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// service is what the tests look at in a service of a compose file.
type service struct {
	Environment map[string]string `yaml:"environment"`
	Labels      map[string]string `yaml:"labels"`
}

// composeFile is what the tests look at in a compose file.
type composeFile struct {
	Services map[string]service `yaml:"services"`
	Networks map[string]named   `yaml:"networks"`
	Volumes  map[string]named   `yaml:"volumes"`
}

type named struct {
	Name string `yaml:"name"`
}

func readCompose(t *testing.T, path string) (file composeFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}

// environments returns the environment of each part of ours in a compose file, with the defaults of the variables in it.
func environments(t *testing.T, path string) map[string]map[string]string {
	t.Helper()
	all := readCompose(t, path).Services
	variable := regexp.MustCompile(`\$\{[A-Z_]+:?-([^}]*)\}`)
	parts := map[string]map[string]string{}
	for _, part := range []string{"gateway", "users", "rides", "orchestrator", "launcher", "persdb"} {
		parts[part] = map[string]string{}
		for name, value := range all[part].Environment {
			parts[part][name] = variable.ReplaceAllString(value, "$1")
		}
	}
	return parts
}

// Every setting of the stack is one of the cluster, with the same default, but for what is meant to differ.
func TestCluster_SettingsOfTheStack(t *testing.T) {
	own := map[string]string{ // the names by which the parts find each other, and what a cluster has more of
		"gateway":      "GATEWAY_LISTEN GATEWAY_ORDER USERS_URL RIDES_URL",
		"users":        "USERS_LISTEN ORCHESTRATOR_URL AUTH_FILE",
		"rides":        "RIDES_LISTEN RIDES_ORIGIN ORCHESTRATOR_URL GATEWAY_URL AUTH_FILE",
		"orchestrator": "ORCHESTRATOR_LISTEN ORCHESTRATOR_ADVERTISE RIDESHARE_COORDINATOR RIDESHARE_LAUNCHER PERSDB_URL AUTH_FILE RIDESHARE_SLAVES SCALE_MIN",
		"launcher":     "LAUNCHER_LISTEN RIDESHARE_COORDINATOR RIDESHARE_BUS_FILE PERSDB_URL",
		"persdb":       "PERSDB_LISTEN PERSDB_LOG PERSDB_LOG_PASSWORD_FILE ARCHIVE_URL MAX_DATABASE_MIB",
	}
	// Workers are containers in the stack and processes in the cluster. Only in the stack networks keep callers away from persdb and the launcher.
	other := map[string]string{
		"launcher": "LAUNCHER_ENGINE LAUNCHER_PROJECT LAUNCHER_IMAGE LAUNCHER_NETWORK WORKER_MEMORY_MIB WORKER_REPLICA_MIB WORKER_CPUS WORKER_TLS LAUNCHER_ADDRESS LAUNCHER_DATA GOMEMLIMIT PRIVATE_NETWORK",
		"persdb":   "PRIVATE_NETWORK",
	}
	stack, tls, cluster := environments(t, "../docker-compose.yml"), environments(t, "docker-compose.tls.yml"), environments(t, "cluster/compose.yml")
	for part, names := range own {
		maps.Copy(stack[part], tls[part])
		for name := range strings.FieldsSeq(names) {
			if _, ok := cluster[part][name]; !ok {
				t.Errorf("%s has no %s", part, name)
			}
			delete(stack[part], name)
			delete(cluster[part], name)
		}
		for name := range strings.FieldsSeq(other[part]) {
			delete(stack[part], name)
			delete(cluster[part], name)
		}
		if diff := cmp.Diff(stack[part], cluster[part]); diff != "" {
			t.Errorf("environment of %s (-stack +cluster):\n%s", part, diff)
		}
	}
}

// A container gets secrets as files, never as environment. Its environment may name the files.
func TestEnvironment_NoSecrets(t *testing.T) {
	secret := regexp.MustCompile(`PASSWORD|SECRET|TOKEN|KEY|CREDENTIAL`)
	for _, file := range []string{"../docker-compose.yml", "docker-compose.tls.yml", "cluster/compose.yml"} {
		for part, variables := range environments(t, file) {
			for name, value := range variables {
				if secret.MatchString(name) && !strings.HasSuffix(name, "_FILE") && !strings.HasPrefix(value, "/run/") {
					t.Errorf("%s: %s has %s in its environment", file, part, name)
				}
			}
		}
	}
}
