// Package deploy has no code of its own; here are the tests of its scripts that need no container engine.
package deploy_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// engine is what docker and docker-compose do in these tests: note how they are called, and answer from files.
const engine = `#!/bin/sh
echo "$(basename "$0") $*" >>"$ENGINE/calls"
echo "$COMPOSE_FILE" >"$ENGINE/files"
case "$*" in
  'compose version') exit 1 ;;
  'ps -q '*publish=*) cat "$ENGINE/own" 2>/dev/null ;;
  'ps --filter publish='*) cat "$ENGINE/holder" 2>/dev/null ;;
  'ps -aq '*service=prometheus*) cat "$ENGINE/prometheus" 2>/dev/null ;;
  'ps -aq '*service=grafana*) ;;
  'ps -aq '*unhealthy*|'ps -aq '*exited*|'ps -aq '*worker*) ;;
  'ps -aq '*) cat "$ENGINE/containers" 2>/dev/null ;;
  'ps -a '*service*Status*) n=$(cat "$ENGINE/looks" 2>/dev/null); echo "x$n" >"$ENGINE/looks"; cat "$ENGINE/look$n" 2>/dev/null || exit 1 ;;
  'ps -a '*service=worker*control*) cat "$ENGINE/workers" 2>/dev/null ;;
  'ps -a '*service=worker*Names*) cat "$ENGINE/names" 2>/dev/null ;;
  'logs -f '*) echo "said by $*"; exec tail -f /dev/null ;;
  'logs '*) echo "said by $*" >&2 ;;
  'network ls --format '*) cat "$ENGINE/networks" 2>/dev/null ;;
  'ps --filter network='*) cat "$ENGINE/members" 2>/dev/null ;;
  'volume ls -q --filter name='*) cat "$ENGINE/volumes" "$ENGINE/unlabelled" 2>/dev/null ;;
  'volume ls '*) cat "$ENGINE/volumes" 2>/dev/null ;;
  'up -d '*) echo "$COMPOSE_PROFILES $STACK_ADMIN" >"$ENGINE/started"; env >"$ENGINE/env"; [ ! -e "$ENGINE/refusal" ] || { cat "$ENGINE/refusal" >&2; exit 1; } ;;
  'down '*) echo "$COMPOSE_PROFILES" >"$ENGINE/removed" ;;
esac
exit 0
`

// stack is a copy of the scripts, with an engine of files.
type stack struct {
	t            *testing.T
	root, engine string
	env          []string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, root: t.TempDir(), engine: t.TempDir()}
	for _, file := range []string{"stack.sh", "composelib.sh", "logs.sh", "observe.sh", "restore.sh", "postgres/stack.sh", "postgres/start.sh", "rabbitmq/rabbitmq.conf", "rabbitmq/enabled_plugins", "rabbitmq/definitions.json", "zookeeper/zoo.cfg", "prometheus/prometheus.yml", "prometheus/alerts.yml", "prometheus/recording.yml"} {
		s.write(filepath.Join(s.root, "deploy", file), s.read(file))
	}
	s.write(filepath.Join(s.root, "deploy", "images.sh"), "#!/bin/sh\necho RIDESHARE_IMAGE=one >\"$1\"\n[ $OBSERVE = 0 ] || echo COMPOSE_PROFILES=observe >>\"$1\"\n")
	s.write(filepath.Join(s.root, "deploy", "secrets.sh"), "#!/bin/sh\n")
	for _, name := range []string{"docker", "docker-compose"} {
		s.write(filepath.Join(s.engine, "bin", name), engine)
	}
	s.env = append(os.Environ(), "ENGINE="+s.engine, "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"),
		"PROJECT=ours", "BIND=127.0.0.1", "GATEWAY_PORT="+testenv.FreePort(t), "ORCHESTRATOR_PORT="+testenv.FreePort(t), "PROMETHEUS_PORT="+testenv.FreePort(t))
	return s
}

func (s *stack) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// up starts the stack and returns what it wrote, and the engine's calls.
func (s *stack) up(settings ...string) (said, calls string, failed bool) {
	s.t.Helper()
	return s.run(settings, "up")
}

// run runs stack.sh and returns what it wrote, and the engine's calls.
func (s *stack) run(settings []string, args ...string) (said, calls string, failed bool) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.root, "deploy", "stack.sh"), args...)
	cmd.Env = append(s.env, settings...)
	out, err := cmd.CombinedOutput()
	b, _ := os.ReadFile(filepath.Join(s.engine, "calls")) // none if nothing was called.
	return string(out), string(b), err != nil
}

// A port that somebody else has is named, with who has it, before anything is made.
func TestStack_Up_PortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := newStack(t)
	s.write(filepath.Join(s.engine, "holder"), "container theirs_orchestrator_1\n")
	said, calls, failed := s.up("ORCHESTRATOR_PORT=" + port)
	if want := "port " + port + " (ORCHESTRATOR_PORT) is taken by container theirs_orchestrator_1"; !failed || !strings.Contains(said, want) {
		t.Errorf("failed: %t, said:\n%s\nwant %q", failed, said, want)
	}
	if strings.Contains(calls, "up -d") {
		t.Errorf("something was started:\n%s", calls)
	}
	s.write(filepath.Join(s.engine, "own"), "0123abcd\n")
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	if _, calls, _ = s.up("ORCHESTRATOR_PORT=" + port); !strings.Contains(calls, "up -d") {
		t.Errorf("a port of its own stopped the stack:\n%s", calls)
	}
}

// A start that fails shows compose's own reason, and removes what it made, the data only if that is new.
func TestStack_Up_FailedStart(t *testing.T) {
	const refusal = "Creating ours_orchestrator_1 ... error\n\nERROR: for orchestrator  driver failed: address already in use\nERROR: Encountered errors while bringing up the project.\n"
	for name, tc := range map[string]struct {
		containers, volumes string
		unlabelled          string // volumes that compose did not make
		down                string // what compose is called with; none if empty
		want                string
	}{
		"New":        {down: "down --remove-orphans --volumes", want: "it did not start: ERROR: for orchestrator  driver failed: address already in use; what it made is removed"},
		"DataBefore": {volumes: "ours_data", down: "down --remove-orphans\n", want: "address already in use; what it made is removed"},
		"MadeByHand": {unlabelled: "ours_persdb", down: "down --remove-orphans\n", want: "address already in use; what it made is removed"},
		"RanBefore":  {containers: "0123abcd", volumes: "ours_data", want: "address already in use; make logs shows more"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			s.write(filepath.Join(s.engine, "refusal"), refusal)
			s.write(filepath.Join(s.engine, "containers"), tc.containers)
			s.write(filepath.Join(s.engine, "volumes"), tc.volumes)
			s.write(filepath.Join(s.engine, "unlabelled"), tc.unlabelled)
			s.write(filepath.Join(s.engine, "names"), "ours-w1\n")
			said, calls, failed := s.up()
			if !failed || !strings.Contains(said, tc.want) || strings.Contains(said, "180 s") {
				t.Errorf("failed: %t, said:\n%s\nwant %q", failed, said, tc.want)
			}
			const logs = "said by logs --no-color\nours-w1 | said by logs ours-w1\n"
			if kept, _ := os.ReadFile(filepath.Join(s.root, ".stack", "ours", "failed.log")); tc.down != "" && string(kept) != logs {
				t.Errorf("failed.log has %q, want %q", kept, logs)
			}
			if tc.down == "" && strings.Contains(calls, "down") || !strings.Contains(calls, tc.down) {
				t.Errorf("want %q of:\n%s", tc.down, calls)
			}
		})
	}
}

// A foreign container in a network of the stack would prevent the removal of the network and of the data. So it is disconnected first.
func TestStack_Down_OthersLeaveTheNetworks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.write(filepath.Join(s.engine, "networks"), "ours_data\n")
	s.write(filepath.Join(s.engine, "members"), "ours_persdb_1 ours\nbucket \ntheirs_web_1 theirs\n")
	said, calls, failed := s.run(nil, "down", "--volumes")
	_, rest, _ := strings.Cut(calls, "docker network disconnect -f ours_data bucket\ndocker network disconnect -f ours_data theirs_web_1\n")
	if failed || strings.Count(calls, "disconnect") != 2 || !strings.Contains(rest, "down --remove-orphans --volumes\n") || !strings.Contains(said, "disconnecting bucket from") {
		t.Errorf("failed: %t, said:\n%s\ncalled:\n%s", failed, said, calls)
	}
}

// The stack is ready once the engine answers, and each of its containers is healthy but the workers, which have no check.
func TestStack_Up_WaitsForTheEngineAndForAll(t *testing.T) {
	s := newStack(t)
	for look, answer := range map[string]string{ // in the first one the engine does not answer
		"x":    "",
		"xx":   "worker Up 1 second\n",
		"xxx":  "persdb Up 1 second (health: starting)\ngateway Up 1 second (healthy)\n",
		"xxxx": "persdb Up 2 seconds (healthy)\ngateway Up 2 seconds (healthy)\nworker Up 2 seconds\n",
	} {
		s.write(filepath.Join(s.engine, "look"+look), answer)
	}
	said, _, failed := s.up()
	if looks := s.read(filepath.Join(s.engine, "looks")); failed || looks != "xxxxx\n" || !strings.Contains(said, "waiting for engine \nstack: waiting for persdb \n") || !strings.Contains(said, "rideshare is ready") {
		t.Errorf("failed: %t, ready after looks %q, want xxxxx; said:\n%s", failed, looks, said)
	}
}

// If images.sh fails, the file with the chosen images stays as it was. If it succeeds, the file has all of them.
func TestImages_ChoiceIsWhole(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	s := &stack{t: t}
	s.write(filepath.Join(root, "deploy", "images.sh"), s.read("images.sh"))
	s.write(filepath.Join(bin, "docker"), "#!/bin/sh\ncase \"$*\" in *{{.Id}}*) echo sha256:0a ;; 'image inspect '*|'pull -q '*) exit \"$ABSENT\" ;; esac\n")
	out := filepath.Join(root, "images")
	const whole = "RIDESHARE_IMAGE=rideshare/rideshare:local\nWORKER_IMAGE=sha256:0a\nRABBITMQ_IMAGE=r\nZOOKEEPER_IMAGE=z\nPOSTGRES_IMAGE=p\nCOMPOSE_PROFILES=postgres\n"
	for absent, want := range map[string]string{"0": whole, "1": "before\n"} {
		s.write(out, "before\n")
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deploy", "images.sh"), out)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GO=true", "RABBITMQ_IMAGE=r", "ZOOKEEPER_IMAGE=z", "POSTGRES_IMAGE=p", "POSTGRES=1", "OBSERVE=0", "ABSENT="+absent)
		said, err := cmd.CombinedOutput()
		if got := s.read(out); (err == nil) != (want == whole) || got != want {
			t.Errorf("images absent: %s: got %q, %v, want %q; said %s", absent, got, err, want, said)
		}
	}
}

// A database whose passwords are gone cannot be used: nothing is started, and no other passwords are made.
func TestStack_Up_PasswordsOfPostgresGone(t *testing.T) {
	s := newStack(t)
	s.write(filepath.Join(s.root, ".stack", "ours", "postgres"), "1\n")
	s.write(filepath.Join(s.engine, "volumes"), "ours_postgres1\n")
	for _, name := range []string{"postgres-superuser", "postgres-log"} {
		if said, calls, failed := s.up(); !failed || !strings.Contains(said, "put these files back") || strings.Contains(calls, "up -d") {
			t.Errorf("without %s: failed: %t, said:\n%s\ncalled:\n%s", name, failed, said, calls)
		}
		s.write(filepath.Join(s.root, ".stack", "ours", "secrets", name), "password\n")
	}
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	if said, calls, _ := s.up(); !strings.Contains(calls, "up -d") {
		t.Errorf("with the passwords nothing was started: %s", said)
	}
}

// TLS_DIR adds a compose file and a copy of its files that containers may read. A file that is missing is named before
// anything is made. Without TLS_DIR nothing of that happens.
func TestStack_Up_TLS(t *testing.T) {
	s := newStack(t)
	dir, copied := t.TempDir(), filepath.Join(s.root, ".stack", "ours", "secrets", "tls")
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	s.write(filepath.Join(dir, "cert.pem"), "the certificate")
	s.write(filepath.Join(dir, "ca.pem"), "the CA")
	said, calls, failed := s.up("TLS_DIR=" + dir)
	if !failed || !strings.Contains(said, "key.pem is not there") || strings.Contains(calls, "up -d") {
		t.Errorf("without key.pem: failed: %t, said:\n%s\ncalls:\n%s", failed, said, calls)
	}
	s.up()
	if files := s.read(filepath.Join(s.engine, "files")); files != "\n" {
		t.Errorf("without TLS_DIR: got compose files %q, want none named", files)
	}
	if _, err := os.Stat(copied); err == nil {
		t.Error("without TLS_DIR: there is a copy of its files")
	}
	for _, key := range []string{"the key", "another key"} {
		s.write(filepath.Join(dir, "key.pem"), key)
		if err := os.Chmod(filepath.Join(dir, "key.pem"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(copied, 0o750), os.Symlink("/dev/full", filepath.Join(copied, "key.pem.new"))); err != nil { // left of an interrupted run, and nothing can be written to it
			t.Fatal(err)
		}
		s.up("TLS_DIR=" + dir)
		if files := s.read(filepath.Join(s.engine, "files")); files != "docker-compose.yml:deploy/docker-compose.tls.yml\n" {
			t.Errorf("got compose files %q, want that of TLS too", files)
		}
		if got := s.read(filepath.Join(copied, "key.pem")); got != key {
			t.Errorf("copy of the key: got %q, want %q", got, key)
		}
		if info, err := os.Stat(filepath.Join(copied, "key.pem")); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("copy of the key: got %v, %v; want mode 0444", info, err)
		}
	}
}

// Workers of the other scheme would be cut off: when TLS is turned on or off, all containers are made again, with their data.
func TestStack_Up_OtherScheme(t *testing.T) {
	dir := t.TempDir()
	s := newStack(t)
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	s.write(filepath.Join(s.engine, "containers"), "0123abcd")
	for _, file := range []string{"cert.pem", "key.pem", "ca.pem"} {
		s.write(filepath.Join(dir, file), "x")
	}
	for _, c := range []struct {
		workers, tls string
		down         bool
	}{
		{"", dir, false},
		{"http://w:1\n", "", false},
		{"https://w:1\nhttps://v:1\n", dir, false},
		{"http://w:1\n", dir, true},
		{"https://w:1\nhttp://v:1\n", "", true},
	} {
		s.write(filepath.Join(s.engine, "calls"), "")
		s.write(filepath.Join(s.engine, "workers"), c.workers)
		_, calls, _ := s.up("TLS_DIR=" + c.tls)
		made, rest, _ := strings.Cut(calls, "up -d")
		if got := strings.Contains(made, "down --remove-orphans\n"); got != c.down || strings.Contains(rest, "down") {
			t.Errorf("%q with TLS_DIR=%q: made again: %t, want %t:\n%s", c.workers, c.tls, got, c.down, calls)
		}
	}
}

// OBSERVE=1 starts Prometheus with a configuration that containers may read, by https where the parts speak TLS, and has the
// gateway show its own metrics. A start without it removes Prometheus. A failed start removes all that there may be.
func TestStack_Up_Observe(t *testing.T) {
	s, dir := newStack(t), t.TempDir()
	for _, file := range []string{"cert.pem", "key.pem", "ca.pem"} {
		s.write(filepath.Join(dir, file), "x")
	}
	s.write(filepath.Join(s.engine, "refusal"), "ERROR: no room\n")
	config := filepath.Join(s.root, ".stack", "ours", "prometheus", "prometheus.yml")
	s.up()
	if _, err := os.Stat(config); err == nil || s.read(filepath.Join(s.engine, "started")) != " \n" {
		t.Errorf("without OBSERVE: got profiles and the gateway's port %q, and a configuration: %t", s.read(filepath.Join(s.engine, "started")), err == nil)
	}
	const https = "    scheme: https\n    tls_config: {cert_file: /run/tls/cert.pem, key_file: /run/tls/key.pem, insecure_skip_verify: true}\n"
	for tls, want := range map[string]string{"": "    scheme: http\n", dir: https} {
		s.up("OBSERVE=1", "TLS_DIR="+tls)
		if got := s.read(filepath.Join(s.engine, "started")); got != "observe :9550\n" {
			t.Errorf("got profiles and the gateway's port %q, want observe and :9550", got)
		}
		if got := s.read(config); strings.Count(got, want) != 7 || strings.Count(got, "scheme: ") != 7 {
			t.Errorf("TLS_DIR=%q: want 7 parts with %q:\n%s", tls, want, got)
		}
		if info, err := os.Stat(config); err != nil || info.Mode().Perm()&0o044 != 0o044 {
			t.Errorf("got %v, %v; want a file that containers can read", info, err)
		}
		if got := s.read(filepath.Join(s.engine, "removed")); got != "observe,grafana,postgres\n" {
			t.Errorf("removed with the profiles %q, want observe,grafana,postgres", got)
		}
	}
	s.write(filepath.Join(s.engine, "prometheus"), "0123abcd\n")
	if _, calls, _ := s.up(); !strings.Contains(calls, "docker rm -f 0123abcd\n") {
		t.Errorf("without OBSERVE again: Prometheus was not removed:\n%s", calls)
	}
	if said, _, failed := s.up("OBSERVE=yes"); !failed || !strings.Contains(said, "allowed: 0, 1") {
		t.Errorf("OBSERVE=yes: failed: %t, said:\n%s", failed, said)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if said, _, failed := s.up("OBSERVE=1", "BIND=127.0.0.2", "PROMETHEUS_PORT="+port); !failed || !strings.Contains(said, "(PROMETHEUS_PORT) is taken") {
		t.Errorf("a port that is taken: failed: %t, said:\n%s", failed, said)
	}
}

func (s *stack) read(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
