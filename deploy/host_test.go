package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clusterHost is a copy of cluster.sh and a folder of one host, with an engine that only notes its calls.
type clusterHost struct {
	*stack
	dir string
}

func newClusterHost(t *testing.T) *clusterHost {
	t.Helper()
	h := &clusterHost{stack: &stack{t: t, root: t.TempDir(), engine: t.TempDir()}, dir: t.TempDir()}
	for _, file := range []string{"cluster/cluster.sh", "cluster/compose.yml", "cluster/rabbitmq.sh", "composelib.sh", "postgres/start.sh", "rabbitmq/rabbitmq.conf", "rabbitmq/enabled_plugins"} {
		h.write(filepath.Join(h.root, "deploy", file), h.read(file))
	}
	h.write(filepath.Join(h.root, "deploy", "images.sh"), `#!/bin/sh
[ ! -e "$ENGINE/broken" ] || exit 1
echo "built with RIDESHARE_IMAGE=$RIDESHARE_IMAGE RABBITMQ_IMAGE=$RABBITMQ_IMAGE POSTGRES=$POSTGRES" >>"$ENGINE/calls"
printf 'RIDESHARE_IMAGE=new\nRABBITMQ_IMAGE=new\nZOOKEEPER_IMAGE=new\nPOSTGRES_IMAGE=new\n' >"$1"
`)
	h.write(filepath.Join(h.engine, "bin", "docker"), `#!/bin/sh
[ "$*" != 'compose version' ] || exit 1
[ "$1" != run ] || echo "docker $*" >>"$ENGINE/calls"
`)
	h.write(filepath.Join(h.engine, "bin", "docker-compose"), `#!/bin/sh
env >"$ENGINE/env"
echo "docker-compose $*: $RIDESHARE_IMAGE $RABBITMQ_IMAGE" >>"$ENGINE/calls"
`)
	for _, file := range []string{"rabbitmq.conf", "zoo.cfg"} {
		h.write(filepath.Join(h.dir, file), "# that of a\n")
	}
	h.settings("")
	return h
}

// settings writes the settings of the host a, with further ones.
func (h *clusterHost) settings(more string) {
	h.t.Helper()
	h.write(filepath.Join(h.dir, "settings"), "# those of a\nHOST_NAME=a\nHOST_ADDRESS=10.0.0.1\nOTHER_HOSTS=b=10.0.0.2 c=host.example\nPERSDB_URLS=https://10.0.0.1:9530\n"+more)
}

// do runs cluster.sh, and returns what it says and the engine's calls.
func (h *clusterHost) do(verb string, args ...string) (said, calls string, failed bool) {
	h.t.Helper()
	h.write(filepath.Join(h.engine, "calls"), "")
	cmd := exec.CommandContext(h.t.Context(), filepath.Join(h.root, "deploy", "cluster", "cluster.sh"), append([]string{verb, h.dir}, args...)...)
	cmd.Env = append(os.Environ(), "PROJECT=", "RIDESHARE_IMAGE=", "RABBITMQ_IMAGE=", "ENGINE="+h.engine, "PATH="+filepath.Join(h.engine, "bin")+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, h.env...)
	out, err := cmd.CombinedOutput()
	return string(out), h.read(filepath.Join(h.engine, "calls")), err != nil
}

// A setting that nothing reads is refused by name; the others reach compose. Where names are limited, the hosts' own addresses are
// allowed.
func TestCluster_Settings(t *testing.T) {
	t.Parallel()
	h := newClusterHost(t)
	for line, name := range map[string]string{"SCALE_MAXIMUM=8": "SCALE_MAXIMUM", "scale_max=8": "scale_max", "SCALE_MAX": "SCALE_MAX", " CACHE=off": " CACHE", "export CACHE=off": "export CACHE", "SCALE_=8": "SCALE_"} {
		h.settings(line + "\n")
		if said, calls, failed := h.do("ps"); !failed || !strings.Contains(said, "settings: "+name+" is no setting") || calls != "" {
			t.Errorf("%s: failed: %t, said %q, called %q; want it refused", line, failed, said, calls)
		}
	}
	h.settings("CACHE=off\nARCHIVE_URL=s3://b/p?region=x\n# more\n\nIMAGES=debian\nPROJECT=ours\nALLOWED_HOSTS=db.example.com")
	if said, _, failed := h.do("ps"); failed {
		t.Fatal(said)
	}
	env := "\n" + h.read(filepath.Join(h.engine, "env"))
	for _, want := range []string{"CACHE=off", "ARCHIVE_URL=s3://b/p?region=x", "COMPOSE_PROJECT_NAME=ours", "CLUSTER_HOSTS=db.example.com,10.0.0.1,10.0.0.2,host.example"} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("compose has no %s", want)
		}
	}
}

// Images are built if none are known, and with --build. A build that fails leaves the host as it is; without known images the
// verbs that start nothing work, too.
func TestCluster_Images(t *testing.T) {
	t.Parallel()
	const built, start = "built with RIDESHARE_IMAGE= RABBITMQ_IMAGE= POSTGRES=1\n", "docker-compose --env-file deploy/cluster/none.env up -d --no-build: new new\n"
	h := newClusterHost(t)
	for verb, want := range map[string]string{
		"ps": "docker-compose --env-file deploy/cluster/none.env ps: rideshare/rideshare:local none\n", "down": "docker-compose --env-file deploy/cluster/none.env down: rideshare/rideshare:local none\n",
		"logs": "docker-compose --env-file deploy/cluster/none.env logs -f --tail=100: rideshare/rideshare:local none\n",
	} {
		if said, calls, failed := h.do(verb); failed || calls != want {
			t.Errorf("%s without images: failed: %t, said %q, called %q; want %q", verb, failed, said, calls, want)
		}
	}
	if said, calls, failed := h.do("check"); failed || !strings.Contains(calls, " rideshare/rideshare:local check ") {
		t.Errorf("check without images: failed: %t, said %q, called %q; want the image that was built last", failed, said, calls)
	}
	for _, test := range []struct {
		what, known, want string
		args              []string
		broken, fails     bool
	}{
		{"the first one", "", built + start, nil, false, false},
		{"with known images", "RIDESHARE_IMAGE=old\nRABBITMQ_IMAGE=old\n", "docker-compose --env-file deploy/cluster/none.env up -d --no-build: old old\n", nil, true, false},
		{"an upgrade", "RIDESHARE_IMAGE=old\nRABBITMQ_IMAGE=old\n", built + start, []string{"--build"}, false, false},
		{"a failed upgrade", "RIDESHARE_IMAGE=old\nRABBITMQ_IMAGE=old\n", "", []string{"--build"}, true, true},
		{"an unknown option", "", "", []string{"--rebuild"}, false, true},
	} {
		_ = os.Remove(filepath.Join(h.engine, "broken")) // it may not be there
		if test.broken {
			h.write(filepath.Join(h.engine, "broken"), "")
		}
		h.write(filepath.Join(h.dir, "images"), test.known)
		said, calls, failed := h.do("up", test.args...)
		if failed != test.fails || calls != test.want {
			t.Errorf("up, %s: failed: %t, said %q, called %q; want %q", test.what, failed, said, calls, test.want)
		}
		if kept := h.read(filepath.Join(h.dir, "images")); failed && kept != test.known {
			t.Errorf("up, %s: images are %q, want them as they were", test.what, kept)
		}
	}
}

// A folder that is not there is named.
func TestCluster_NoFolder(t *testing.T) {
	t.Parallel()
	h := newClusterHost(t)
	h.dir = filepath.Join(h.dir, "another")
	if said, calls, failed := h.do("ps"); !failed || !strings.Contains(said, h.dir+" is no directory") || calls != "" {
		t.Errorf("failed: %t, said %q, called %q; want %s named", failed, said, calls, h.dir)
	}
}
