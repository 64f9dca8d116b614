// Package deploy has no code of its own; here are the tests of its scripts that need no container engine.
package deploy_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// engine is what docker and docker-compose do in these tests: note how they are called, and answer from files.
const engine = `#!/bin/sh
echo "$(basename "$0") $*" >>"$ENGINE/calls"
case "$*" in
  'compose version') exit 1 ;;
  'ps -q '*publish=*) cat "$ENGINE/own" 2>/dev/null ;;
  'ps --filter publish='*) cat "$ENGINE/holder" 2>/dev/null ;;
  'ps -aq '*unhealthy*|'ps -aq '*exited*|'ps -aq '*worker*) ;;
  'ps -aq '*) cat "$ENGINE/containers" 2>/dev/null ;;
  'volume ls '*) cat "$ENGINE/volumes" 2>/dev/null ;;
  'up -d '*) cat "$ENGINE/refusal" >&2; exit 1 ;;
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
	script, err := os.ReadFile("stack.sh")
	if err != nil {
		t.Fatal(err)
	}
	s.write(filepath.Join(s.root, "deploy", "stack.sh"), string(script))
	s.write(filepath.Join(s.root, "deploy", "images.sh"), "#!/bin/sh\necho RIDESHARE_IMAGE=one >\"$1\"\n")
	s.write(filepath.Join(s.root, "deploy", "secrets.sh"), "#!/bin/sh\n")
	for _, name := range []string{"docker", "docker-compose"} {
		s.write(filepath.Join(s.engine, "bin", name), engine)
	}
	s.env = append(os.Environ(), "ENGINE="+s.engine, "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"),
		"PROJECT=ours", "BIND=127.0.0.1", "GATEWAY_PORT="+freePort(t), "ORCHESTRATOR_PORT="+freePort(t))
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // the port is all that is wanted.
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
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
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.root, "deploy", "stack.sh"), "up")
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
		down                string // what compose is called with; none if empty
		want                string
	}{
		"New":        {down: "down --remove-orphans --volumes", want: "it did not start: ERROR: for orchestrator  driver failed: address already in use; what it made is removed"},
		"DataBefore": {volumes: "ours_data", down: "down --remove-orphans\n", want: "address already in use; what it made is removed"},
		"RanBefore":  {containers: "0123abcd", volumes: "ours_data", want: "address already in use; make logs shows more"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			s.write(filepath.Join(s.engine, "refusal"), refusal)
			s.write(filepath.Join(s.engine, "containers"), tc.containers)
			s.write(filepath.Join(s.engine, "volumes"), tc.volumes)
			said, calls, failed := s.up()
			if !failed || !strings.Contains(said, tc.want) || strings.Contains(said, "180 s") {
				t.Errorf("failed: %t, said:\n%s\nwant %q", failed, said, tc.want)
			}
			if tc.down == "" && strings.Contains(calls, "down") || !strings.Contains(calls, tc.down) {
				t.Errorf("want %q of:\n%s", tc.down, calls)
			}
		})
	}
}
