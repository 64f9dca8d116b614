package deploy_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// newWholeCluster returns a host of a cluster that is whole: the engine, psql and ZooKeeper answer from files.
func newWholeCluster(t *testing.T) *clusterHost {
	t.Helper()
	h := newClusterHost(t)
	h.write(filepath.Join(h.dir, "secrets", "postgres-superuser"), "secret\n")
	for name, script := range map[string]string{
		"docker": `case "$*" in
  "ps -q --filter label=com.docker.compose.project=rideshare-cluster --filter label=com.docker.compose.service="*) cat "$ENGINE/id-${6##*=}" ;;
  'exec 0rabbit timeout 60 rabbitmqctl -q eval '*) cat "$ENGINE/rabbitmq" ;;
  'exec 0rides /rideshare healthcheck '*) echo "$5" >>"$ENGINE/calls"; ! grep -s "$5" "$ENGINE/missing" ;;
  *) echo "unexpected: docker $*"; exit 1 ;;
esac`,
		"psql":    `[ "$PGUSER $PGPASSWORD" = 'postgres secret' ] || exit 1; while [ "$1" != -h ]; do shift; done; cat "$ENGINE/postgres-$2"`,
		"timeout": `shift; [ "$1" = bash ] || exec "$@"; cat "$ENGINE/zookeeper-$4"`, // 2181 may be another server's
		// Each sleep is followed by the next state. After the last one the script ends: it must not look for ever.
		"sleep": `for next in "$ENGINE"/next*; do [ -e "$next" ] || exit 1; cp "$next"/* "$ENGINE"; rm -r "$next"; exit; done`,
	} {
		h.write(filepath.Join(h.engine, "bin", name), "#!/bin/sh\n"+script+"\n")
	}
	for file, text := range map[string]string{
		"id-orchestrator": "0rides\n", "id-rabbitmq": "0rabbit\n", "rabbitmq": "{[3,3,3],[],[],[true,true]}\n",
		"postgres-10.0.0.1": "standby\n", "postgres-10.0.0.2": "primary with 2 standbys\n", "postgres-host.example": "standby\n",
		"zookeeper-10.0.0.1": "follower\n", "zookeeper-10.0.0.2": "follower\n", "zookeeper-host.example": "leader\n",
	} {
		h.write(filepath.Join(h.engine, file), text)
	}
	return h
}

// What is missing is named, with the host, when the limit is reached.
func TestCluster_Whole_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, text, want string }{
		"persdb":             {"missing", "https://10.0.0.2:9530\n", "persdb of b: https://10.0.0.2:9530\n"},
		"several parts":      {"missing", "https://10.0.0.1:8080\nhttps://host.example:8083\n", "gateway of a: https://10.0.0.1:8080; orchestrator of c: https://host.example:8083\n"},
		"no orchestrator":    {"id-orchestrator", "", "orchestrator does not run on this host\n"},
		"a standby too few":  {"postgres-10.0.0.2", "primary with 1 standbys\n", "PostgreSQL: got a: standby, b: primary with 1 standbys, c: standby; want "},
		"two primaries":      {"postgres-10.0.0.1", "primary with 2 standbys\n", "PostgreSQL: got a: primary with 2 standbys, b: primary with 2 standbys, c: standby; want "},
		"silent PostgreSQL":  {"postgres-host.example", "", "PostgreSQL: got a: standby, b: primary with 2 standbys, c: no answer; want "},
		"no leader":          {"zookeeper-host.example", "", "ZooKeeper: got a: follower, b: follower, c: no answer; want "},
		"a server alone":     {"zookeeper-10.0.0.1", "standalone\n", "ZooKeeper: got a: standalone, b: follower, c: leader; want "},
		"a queue is behind":  {"rabbitmq", "{[3,3,3],[],[],[false,true]}\n", "RabbitMQ: got {[3,3,3],[],[],[false,true]}, want {[3,3,3],[],[],[true,true]}: "},
		"a node finds two":   {"rabbitmq", "{[3,3,2],[],[],[true,true]}\n", "RabbitMQ: got {[3,3,2],[],[],[true,true]}, want "},
		"no node of its own": {"id-rabbitmq", "", "rabbitmq does not run on this host\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWholeCluster(t)
			h.env = []string{"WAIT_LIMIT=0"}
			h.write(filepath.Join(h.engine, test.file), test.text)
			if said, _, failed := h.do("whole"); !failed || !strings.HasPrefix(said, "cluster: not whole in 0 s: "+test.want) {
				t.Errorf("failed: %t, said %q; want %q", failed, said, test.want)
			}
		})
	}
}

// `whole` names a server that fails or does not answer, with the first line of the reason.
func TestCluster_Whole_SaysWhyNoAnswer(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"psql":    "PostgreSQL: got a: no answer (psql: refused), b: no answer (psql: refused), c: no answer (psql: refused); want ",
		"timeout": "PostgreSQL: got a: no answer (timeout: refused), ",
		"docker":  "orchestrator does not run on this host: docker: refused",
	} {
		h := newWholeCluster(t)
		h.env = []string{"WAIT_LIMIT=0"}
		h.write(filepath.Join(h.engine, "bin", program), "#!/bin/sh\necho '"+program+": refused' >&2\necho 'a hint' >&2\nexit 1\n")
		if said, _, failed := h.do("whole"); !failed || !strings.HasPrefix(said, "cluster: not whole in 0 s: "+want) {
			t.Errorf("%s: failed: %t, said %q; want %q", program, failed, said, want)
		}
	}
}

// whole waits, tells once what is missing, and ends when one look has found everything: all parts are asked again.
func TestCluster_Whole_Waits(t *testing.T) {
	t.Parallel()
	h := newWholeCluster(t)
	h.write(filepath.Join(h.engine, "missing"), "https://10.0.0.2:9530\n")
	const behind = "{[3,3,3],[],[],[true,false]}"
	h.write(filepath.Join(h.engine, "next1", "missing"), "")
	h.write(filepath.Join(h.engine, "next1", "rabbitmq"), behind)
	h.write(filepath.Join(h.engine, "next2", "rabbitmq"), behind)
	h.write(filepath.Join(h.engine, "next3", "rabbitmq"), "warning: of the VM\n{[3,3,3],[],[],[true,true]}\n")
	said, calls, failed := h.do("whole")
	lines := strings.Split(said, "\n")
	if failed || len(lines) != 4 || lines[0] != "cluster: not whole yet: persdb of b: https://10.0.0.2:9530" ||
		!strings.HasPrefix(lines[1], "cluster: not whole yet: RabbitMQ: got "+behind) || lines[2] != "cluster: all is whole: one host may be taken away" {
		t.Errorf("failed: %t, said:\n%s\nwant persdb and RabbitMQ named once each, and that all is whole", failed, said)
	}
	if got := strings.Count(calls, "https://10.0.0.1:8083\n"); got != 4 {
		t.Errorf("the orchestrator was asked %d times, want 4", got)
	}
}

// wait and whole have the limit that is given, which must be a number, and whole takes nothing else.
func TestCluster_WaitLimit(t *testing.T) {
	t.Parallel()
	h := newWholeCluster(t)
	h.write(filepath.Join(h.engine, "bin", "docker"), "#!/bin/sh\necho refused\nexit 1\n")
	if said, _, failed := h.do("whole", "now"); !failed || !strings.Contains(said, "cluster.sh whole DIR") {
		t.Errorf("with an argument: failed: %t, said %q; want the usage", failed, said)
	}
	for limit, want := range map[string]string{"0": "in 0 s: ", "4m": "WAIT_LIMIT is 4m", "08": "WAIT_LIMIT is 08"} {
		for _, verb := range []string{"wait", "whole"} {
			h.env = []string{"WAIT_LIMIT=" + limit}
			if said, _, failed := h.do(verb); !failed || !strings.Contains(said, want) {
				t.Errorf("%s with %s: failed: %t, said %q; want %q", verb, limit, failed, said, want)
			}
		}
	}
}
