package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newLocal returns a copy of local.sh with an engine that only notes its calls, and a folder of a cluster's settings.
func newLocal(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, root: t.TempDir(), engine: t.TempDir()}
	for _, file := range []string{"cluster/local.sh", "composelib.sh"} {
		s.write(filepath.Join(s.root, "deploy", file), s.read(file))
	}
	s.write(filepath.Join(s.root, "deploy", "cluster", "cluster.sh"), "#!/bin/sh\necho \"cluster.sh $1 ${2##*/} in $HOST_NETWORK\" >>\"$ENGINE/calls\"\n")
	s.write(filepath.Join(s.root, "deploy", "images.sh"), "#!/bin/sh\necho images.sh >>\"$ENGINE/calls\"\nexit 1\n")
	s.write(filepath.Join(s.engine, "bin", "docker"), `#!/bin/sh
case "$*" in
  'network ls '*) cat "$ENGINE/networks" ;;
  'ps -aq '*) echo 0123abcd ;;
  'ps '*) echo 'other ' ;;
  *) echo "docker $*" >>"$ENGINE/calls" ;;
esac
`)
	s.write(filepath.Join(s.engine, "networks"), "4567cdef\n")
	return s
}

// local runs local.sh, and returns what it says and the calls.
func (s *stack) local(verb, project string) (said, calls string, failed bool) {
	s.t.Helper()
	s.write(filepath.Join(s.engine, "calls"), "")
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.root, "deploy", "cluster", "local.sh"), verb)
	cmd.Env = append(os.Environ(), "PROJECT="+project, "ENGINE="+s.engine, "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), s.read(filepath.Join(s.engine, "calls")), err != nil
}

// down needs no container of a host, and removes the network although another container is in it.
func TestLocal_Down_WhateverIsLeft(t *testing.T) {
	t.Parallel()
	s := newLocal(t)
	for _, host := range []string{"a", "b"} { // c has none
		s.write(filepath.Join(s.root, ".cluster", "ours", host, "settings"), "")
	}
	const want = "cluster.sh down a in host\ncluster.sh down b in host\ndocker rm -f 0123abcd\ndocker network disconnect -f ours other\ndocker network rm ours\n"
	if said, calls, failed := s.local("down", "ours"); failed || calls != want {
		t.Errorf("failed: %t, said %q, called:\n%s\nwant:\n%s", failed, said, calls, want)
	}
	if _, err := os.Stat(filepath.Join(s.root, ".cluster", "ours")); err == nil {
		t.Error("the settings are still there")
	}
}

// up names the command that removes what an earlier start left. A PROJECT that is no name is refused.
func TestLocal_Up_LeftBehind(t *testing.T) {
	t.Parallel()
	s := newLocal(t)
	if said, calls, failed := s.local("up", "ours"); !failed || !strings.Contains(said, "make down-cluster") || calls != "" {
		t.Errorf("with a network: failed: %t, said %q, called %q; want make down-cluster named, and no call", failed, said, calls)
	}
	for _, verb := range []string{"up", "down"} {
		if said, calls, failed := s.local(verb, "../ours"); !failed || !strings.Contains(said, "PROJECT is ../ours") || calls != "" {
			t.Errorf("%s: failed: %t, said %q, called %q; want PROJECT refused, and no call", verb, failed, said, calls)
		}
	}
	s.write(filepath.Join(s.engine, "networks"), "")
	if said, calls, _ := s.local("up", "ours"); calls != "images.sh\n" {
		t.Errorf("without a network: said %q, called %q; want images made", said, calls)
	}
}
