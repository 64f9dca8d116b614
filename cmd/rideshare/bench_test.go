package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/bench/ladder"
)

// inCheckout changes to a checkout where `make services` wrote that file; without text it wrote none.
func inCheckout(t *testing.T, env string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if env != "" {
		if err := os.Mkdir(filepath.Join(dir, ".services"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".services", "env"), []byte(env), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

const bothStarted = "RABBITMQ_URL='amqp://127.0.0.1:1/'\nRABBITMQ_PID=12\nZOOKEEPER_URL='zk://127.0.0.1:2'\nZOOKEEPER_PID=13\n"

// A benchmark without services starts none: its error names the command that does.
func TestBench_NoServices_NamesTheCommand(t *testing.T) {
	t.Setenv("BENCH_BUS", "")
	t.Setenv("BENCH_COORDINATOR", "")
	for name, test := range map[string]struct{ env, args, want string }{
		"Ladder":         {"", "bench", "--bus"},
		"Join":           {"", "bench join", "--bus"},
		"Failover":       {"", "bench failover --launcher process", "--bus"},
		"Scale":          {"", "bench scale", "--bus"},
		"Stopped":        {"\n", "bench", "--bus"},
		"OnlyABus":       {"", "bench --bus amqp://127.0.0.1:1/", "--coordinator"},
		"OnlyARabbitMQ":  {"RABBITMQ_URL='amqp://127.0.0.1:1/'\nRABBITMQ_PID=12\n", "bench", "--coordinator"},
		"OnlyAZooKeeper": {"ZOOKEEPER_URL='zk://127.0.0.1:2'\nZOOKEEPER_PID=13\n", "bench", "--bus"},
	} {
		t.Run(name, func(t *testing.T) {
			inCheckout(t, test.env)
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
			if text := stderr.String(); code != exitFailed || !strings.Contains(text, "make services") || !strings.Contains(text, test.want) {
				t.Errorf("got %d, %s, want %d with make services and %s", code, text, exitFailed, test.want)
			}
		})
	}
}

// A wrong --rqlite, or a path of rqlite without --rqlite, is wrong usage. It is found before the services are looked for.
func TestBench_Rqlite_WrongFile_IsUsage(t *testing.T) {
	inCheckout(t, "")
	if err := os.WriteFile("text", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--rqlite missing":         "missing: no such file",
		"--rqlite text":            "text\": permission denied",
		"--rqlite .":               "--rqlite is no program",
		"--paths http,rqlite-3":    "--paths rqlite-3 needs --rqlite FILE",
		"--paths rqlite,inprocess": "--paths rqlite needs --rqlite FILE",
		"--paths batched-sql":      "--paths batched-sql needs --rqlite FILE",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields("bench "+args), &stdout, &stderr)
		if text := stderr.String(); code != exitUsage || !strings.Contains(text, want) || strings.Contains(text, "services") {
			t.Errorf("%s: got %d, %s, want %d with %q", args, code, text, exitUsage, want)
		}
	}
}

// What the flags name stands before what is started. The pid is known of a started broker only.
func TestBench_Services_FlagsFirst(t *testing.T) {
	inCheckout(t, bothStarted)
	for _, test := range []struct {
		flags benchServices
		want  ladder.Environment
	}{
		{benchServices{}, ladder.Environment{Bus: "amqp://127.0.0.1:1/", Coordinator: "zk://127.0.0.1:2", BrokerPID: 12}},
		{benchServices{Bus: "amqp://b/"}, ladder.Environment{Bus: "amqp://b/", Coordinator: "zk://127.0.0.1:2"}},
		{benchServices{Bus: "amqp://b/", Coordinator: "zk://c"}, ladder.Environment{Bus: "amqp://b/", Coordinator: "zk://c"}},
	} {
		if got, err := test.flags.environment(); err != nil || got != test.want {
			t.Errorf("%+v: got %+v, %v, want %+v", test.flags, got, err, test.want)
		}
	}
}
