package deploy_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// initCluster makes the settings of three hosts. The slash after the folder's name changes nothing.
func initCluster(t *testing.T, args ...string) (dir, output string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cluster")
	out, err := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `umask 077 && exec bash cluster/init.sh "$0" "$@"`, dir + "/"}, args...)...).CombinedOutput()
	return dir, string(out), err
}

// Each host has its own address first in each list, a certificate for it, and the same secrets as the others. Only the first
// host makes the database, and the CA's key is with none. Nothing is made twice.
func TestClusterInit(t *testing.T) {
	dir, out, err := initCluster(t, "a=10.0.0.1", "b=10.0.0.2", "c=host.example")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := func(path ...string) string {
		t.Helper()
		text, wrong := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
		if wrong != nil {
			t.Fatal(wrong)
		}
		return string(text)
	}
	for _, line := range []string{
		"HOST_NAME=b", "HOST_NUMBER=2", "OTHER_HOSTS=a=10.0.0.1 c=host.example",
		"LAUNCHERS=a=https://10.0.0.1:9600,b=https://10.0.0.2:9600,c=https://host.example:9600",
		"COORDINATOR=zk://10.0.0.2:2181,10.0.0.1:2181,host.example:2181/rideshare",
		"PERSDB_URLS=https://10.0.0.2:9530,https://10.0.0.1:9530,https://host.example:9530",
	} {
		if !strings.Contains(read("b", "settings"), line+"\n") {
			t.Errorf("settings of b: got %s, want a line %s", read("b", "settings"), line)
		}
	}
	for path, want := range map[string]os.FileMode{"": 0o700, "a": 0o700, "a/secrets": 0o755, "b/tls": 0o755, "c/first": 0o755} { // the last three are mounted
		if info, wrong := os.Stat(filepath.Join(dir, path)); wrong != nil || info.Mode().Perm() != want {
			t.Errorf("DIR/%s: got %v, %v, want %v", path, info.Mode().Perm(), wrong, want)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read("ca.pem")))
	for host, address := range map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "host.example"} {
		block, _ := pem.Decode([]byte(read(host, "tls", "cert.pem")))
		cert, wrong := x509.ParseCertificate(block.Bytes)
		if wrong == nil {
			_, wrong = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: address})
		}
		if wrong != nil {
			t.Errorf("certificate of %s: %v", host, wrong)
		}
		for _, secret := range []string{"api-credentials", "launcher-token", "postgres-log", "erlang-cookie", "rabbitmq-definitions.json"} {
			if read(host, "secrets", secret) != read("a", "secrets", secret) || read(host, "secrets", secret) == "" {
				t.Errorf("%s of %s differs from that of a", secret, host)
			}
		}
		_, failed := os.Stat(filepath.Join(dir, host, "first", "database"))
		if first := failed == nil; first != (host == "a") {
			t.Errorf("host %s makes the database: got %t", host, first)
		}
		if keys, _ := filepath.Glob(filepath.Join(dir, host, "*", "ca-key")); len(keys) > 0 {
			t.Errorf("host %s has the CA's key", host)
		}
	}
	wantRights(t, read("a", "secrets", "rabbitmq-definitions.json"))
	before := read("a", "secrets", "launcher-token")
	again, err := exec.CommandContext(t.Context(), "bash", "cluster/init.sh", dir, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3").CombinedOutput()
	if err == nil || !strings.Contains(string(again), "exists") || read("a", "secrets", "launcher-token") != before {
		t.Errorf("a second time: got %v, %s, want a refusal that changes nothing", err, again)
	}
}

// wantRights fails the test unless RabbitMQ's users of a cluster have the rights of the stack's, but for the user that declares the
// queues, and no queue is declared.
func wantRights(t *testing.T, definitions string) {
	t.Helper()
	type parts struct {
		Users, Queues []map[string]any
		Permissions   []map[string]string
	}
	var cluster, stack parts
	text, err := os.ReadFile(filepath.Join("rabbitmq", "definitions.json"))
	if err = errors.Join(err, json.Unmarshal([]byte(definitions), &cluster), json.Unmarshal(text, &stack)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stack.Permissions, cluster.Permissions[1:]); diff != "" || cluster.Permissions[0]["user"] != "operator" {
		t.Errorf("rights after those of the operator (-stack +cluster):\n%s", diff)
	}
	if len(cluster.Users) != len(stack.Users)+1 || len(cluster.Queues) != 0 {
		t.Errorf("got %d users and %d queues, want %d and none", len(cluster.Users), len(cluster.Queues), len(stack.Users)+1)
	}
}

// Names and addresses that no host can have are refused, and nothing is made.
func TestClusterInit_WrongHosts(t *testing.T) {
	for name, hosts := range map[string][]string{
		"Two": {"a=10.0.0.1", "b=10.0.0.2"}, "NameTwice": {"a=10.0.0.1", "a=10.0.0.2", "c=10.0.0.3"}, "AddressTwice": {"a=10.0.0.1", "b=10.0.0.1", "c=10.0.0.3"},
		"NoName": {"10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"}, "NoDot": {"a=one", "b=10.0.0.2", "c=10.0.0.3"}, "Capital": {"A=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"},
		"LongName": {strings.Repeat("a", 33) + "=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, out, err := initCluster(t, hosts...)
			if err == nil || out == "" {
				t.Errorf("got %v, %q, want an error that says why", err, out)
			}
			if _, err = os.Stat(dir); err == nil {
				t.Errorf("%s was made", dir)
			}
		})
	}
}

// A node of RabbitMQ ends when its log names every other node as partitioned, as after a pause. A node that was named and has come up
// since does not count: the node that is well must not end because each of the others has been away once.
func TestClusterRabbitMQ_EndsAlone(t *testing.T) {
	const (
		lostB = "2026-11-27 19:09:21.966+00:00 [error] <0.276.0> Mnesia('rabbit@10.0.0.1'): ** ERROR ** mnesia_event got {inconsistent_database, running_partitioned_network, 'rabbit@10.0.0.2'}\n"
		upB   = "2026-11-27 19:09:39.143+00:00 [info] <0.528.0> rabbit on node 'rabbit@10.0.0.2' up\n"
		lostC = "2026-11-27 19:10:20.110+00:00 [error] <0.276.0> Mnesia('rabbit@10.0.0.1'): ** ERROR ** mnesia_event got {inconsistent_database, running_partitioned_network, 'rabbit@10.0.0.3'}\n"
	)
	for name, test := range map[string]struct {
		log  string
		ends bool
	}{
		"both at once":           {lostC + lostB, true},
		"one":                    {lostB, false},
		"the same twice":         {lostB + lostB, false},
		"one after the other":    {lostB + upB + lostC, false},
		"one comes and is lost":  {lostB + upB + lostB + lostC, true},
		"another one comes back": {lostC + upB + lostB, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := exec.CommandContext(t.Context(), "sleep", "600")
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			follow := exec.CommandContext(t.Context(), "sh", "cluster/rabbitmq.sh", "2", "follow", strconv.Itoa(server.Process.Pid))
			follow.Stdin = strings.NewReader(test.log)
			out, err := follow.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), test.log) {
				t.Errorf("got %v, %s, want the log", err, out)
			}
			_ = server.Process.Signal(syscall.SIGTERM) // it may have ended
			_ = server.Wait()                          // an error says which signal ended it
			if ended := server.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; ended != test.ends {
				t.Errorf("ended: got %t, want %t, after %s", ended, test.ends, out)
			}
		})
	}
}

// A node of RabbitMQ that takes no clients gets a minute, then twice as long at each start, up to four minutes: a limit that is shorter than a start would
// end it for ever. A node that takes clients has a minute again.
func TestClusterRabbitMQ_EachStartGetsLonger(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"sleep":       `echo sleep "$1" >>"$CALLS"`,
		"grep":        `[ "$(wc -l <"$CALLS")" -eq "$LISTENS_AT" ]`,
		"rabbitmqctl": "exit 0",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for start, test := range []struct{ listensAt, sleeps int }{{0, 12}, {0, 24}, {0, 48}, {0, 48}, {3, 3 + 12}, {0, 24}} {
		server := exec.CommandContext(t.Context(), "tail", "-f", "/dev/null")
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		calls := filepath.Join(dir, "calls")
		if err := os.WriteFile(calls, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		watch := exec.CommandContext(t.Context(), "sh", "cluster/rabbitmq.sh", "2", "watch", strconv.Itoa(server.Process.Pid), filepath.Join(dir, "limit"))
		watch.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls, "LISTENS_AT="+strconv.Itoa(test.listensAt))
		if out, err := watch.CombinedOutput(); err != nil {
			t.Fatalf("start %d: %v, %s", start, err, out)
		}
		_ = server.Wait() // an error says which signal ended it
		if signal := server.ProcessState.Sys().(syscall.WaitStatus).Signal(); signal != syscall.SIGKILL {
			t.Errorf("start %d ended by %v, want SIGKILL", start, signal)
		}
		if text, err := os.ReadFile(calls); err != nil || strings.Count(string(text), "sleep 5\n") != test.sleeps {
			t.Errorf("start %d: ended after %d times 5 s, want %d (%v)", start, strings.Count(string(text), "\n"), test.sleeps, err)
		}
	}
}

// A node that takes clients is told once to heal its members: again only if that failed.
func TestClusterRabbitMQ_Heals(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for name, script := range map[string]string{
		"sleep":       `echo >>"$SLEEPS"`,
		"grep":        `[ "$(wc -l <"$SLEEPS")" -le 5 ]`,
		"rabbitmqctl": `echo "$1 $2" >>"$CALLS"; case "$3" in *ra:transfer_leadership*) [ "$(wc -l <"$CALLS")" = 2 ] ;; esac`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	itself := exec.CommandContext(t.Context(), "sh", "-c", `exec sh cluster/rabbitmq.sh 2 watch $$ "$1"`, "sh", filepath.Join(dir, "limit"))
	itself.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls, "SLEEPS="+filepath.Join(dir, "sleeps"))
	if out, err := itself.CombinedOutput(); err == nil {
		t.Fatalf("got no error, want the process ended: %s", out)
	}
	if text, err := os.ReadFile(calls); err != nil || string(text) != "-q eval\n-q eval\n" {
		t.Errorf("got the calls %q and %v, want one that fails and one more", text, err)
	}
}

// The limit of the next start is kept before the node is ended: the container may end with the node.
func TestClusterRabbitMQ_LimitIsKeptBeforeTheEnd(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"sleep": "exit 0", "grep": "exit 1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	limit := filepath.Join(dir, "limit")
	itself := exec.CommandContext(t.Context(), "sh", "-c", `exec sh cluster/rabbitmq.sh 2 watch $$ "$1"`, "sh", limit)
	itself.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := itself.CombinedOutput(); err == nil {
		t.Fatalf("got no error, want the process ended: %s", out)
	}
	if text, err := os.ReadFile(limit); err != nil || string(text) != "120\n" {
		t.Errorf("got the limit %q and %v, want 120", text, err)
	}
}
