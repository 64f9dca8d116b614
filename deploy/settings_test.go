package deploy_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// started starts the stack, and returns the value with which compose gets the variable.
func (s *stack) started(variable string, settings ...string) string {
	s.t.Helper()
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	s.write(filepath.Join(s.engine, "env"), "")
	said, _, _ := s.up(settings...)
	env := s.read(filepath.Join(s.engine, "env"))
	value := regexp.MustCompile(`(?m)^` + variable + `=(.*)$`).FindStringSubmatch(env)
	if value == nil {
		s.t.Fatalf("nothing was started with %s: %s", variable, said)
	}
	return value[1]
}

// users, rides and Prometheus call gateway and orchestrator by these names, so wherever names are limited, these are allowed.
func TestStack_Up_AllowedHosts(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, test := range []struct{ bind, allowed, want string }{
		{"127.0.0.1", "", "gateway,orchestrator"},
		{"127.0.0.1", "db.example.com", "gateway,orchestrator,db.example.com"},
		{"0.0.0.0", "", ""},
		{"0.0.0.0", "db.example.com,other", "gateway,orchestrator,db.example.com,other"},
	} {
		if got := s.started("STACK_HOSTS", "BIND="+test.bind, "ALLOWED_HOSTS="+test.allowed); got != test.want {
			t.Errorf("BIND=%s ALLOWED_HOSTS=%s: got %q, want %q", test.bind, test.allowed, got, test.want)
		}
	}
}

// stack.sh reads the values of .env as compose does: quotes, comments and carriage returns are no part of a value.
func TestStack_Up_ValuesOfEnv(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for line, want := range map[string]string{
		`LOG_LEVEL=debug`:                   "debug",
		"LOG_LEVEL=debug\r":                 "debug",
		`LOG_LEVEL="debug"`:                 "debug",
		`LOG_LEVEL='debug'`:                 "debug",
		`LOG_LEVEL='a "b" # c'` + "\r":      `a "b" # c`,
		`LOG_LEVEL="a b" # more than usual`: "a b",
		`LOG_LEVEL=debug # more than usual`: "debug",
		"LOG_LEVEL=debug\t# more":           "debug",
		`LOG_LEVEL=a b#c= `:                 "a b#c=",
		`LOG_LEVEL="a`:                      `"a`,
		`LOG_LEVEL=`:                        "",
		`LOG_LEVEL= # none`:                 "",
		`LOG_LEVEL= debug`:                  "debug",
		`LOG_LEVEL= "debug"`:                "debug",
	} {
		s.write(filepath.Join(s.root, ".env"), "# A comment\n"+line+"\nCACHE=off\n")
		if got := s.started("LOG_LEVEL"); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	s.write(filepath.Join(s.root, ".env"), "LOG_LEVEL='debug'")
	if got := s.started("LOG_LEVEL", "LOG_LEVEL=warn"); got != "warn" {
		t.Errorf("with the variable in the environment: got %q, want that", got)
	}
}

// Only VOLUMES=1 removes data.
func TestMake_Down_Volumes(t *testing.T) {
	t.Parallel()
	for volumes, want := range map[string]string{
		"": "deploy/stack.sh down", "0": "deploy/stack.sh down", "1": "deploy/stack.sh down --volumes",
		"no": "VOLUMES is no; allowed: 0, 1", "0 1": "VOLUMES is 0 1; allowed: 0, 1",
	} {
		cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "--no-print-directory", "-n", "down", "VOLUMES="+volumes)
		cmd.Env = append(cmd.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		made, refused := strings.TrimSpace(string(out)), strings.Contains(want, "allowed")
		if refused != (err != nil) || refused && !strings.Contains(made, want) || !refused && made != want {
			t.Errorf("VOLUMES=%q: got %v, %s; want %s", volumes, err, made, want)
		}
	}
}

// The launcher gets the id of the image that was built, since another build takes the image's name away. A stack of a version
// without the id has the name.
func TestStack_WorkerImage(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	if got := s.started("WORKER_IMAGE"); got != "one" {
		t.Errorf("without an id: got %q, want the image's name", got)
	}
	s.write(filepath.Join(s.root, "deploy", "images.sh"), "#!/bin/sh\nprintf 'RIDESHARE_IMAGE=one\\nWORKER_IMAGE=sha256:0a\\n' >\"$1\"\n")
	if got := s.started("WORKER_IMAGE"); got != "sha256:0a" {
		t.Errorf("got %q, want the id", got)
	}
	if got := environments(t, "../docker-compose.yml")["launcher"]["LAUNCHER_IMAGE"]; !strings.HasPrefix(got, "${WORKER_IMAGE:") {
		t.Errorf("the launcher's image is %q, want WORKER_IMAGE", got)
	}
}

// BIND may be a name of this machine's own address or an address of IPv6, with brackets or without: compose gets an address, and
// the addresses that are printed have brackets.
func TestStack_Up_Bind(t *testing.T) {
	t.Parallel()
	for bind, want := range map[string]struct{ compose, url string }{
		"localhost": {"127.0.0.1", "http://127.0.0.1:"}, "::1": {"::1", "http://[::1]:"}, "[::1]": {"::1", "http://[::1]:"}, "127.0.0.2": {"127.0.0.2", "http://127.0.0.2:"},
	} {
		s := newStack(t)
		s.write(filepath.Join(s.engine, "look"), "gateway Up 1 second (healthy)\n")
		said, _, failed := s.up("BIND=" + bind)
		if env := s.read(filepath.Join(s.engine, "env")); failed || !strings.Contains(env, "\nBIND="+want.compose+"\n") || !strings.Contains(env, "\nSTACK_AUTH_FILE=\n") {
			t.Errorf("BIND=%s: failed: %t, said %s; want compose to get %s, and no credentials", bind, failed, said, want.compose)
		}
		if strings.Count(said, want.url) != 4 {
			t.Errorf("BIND=%s: said %s; want %s in each address", bind, said, want.url)
		}
	}
}
