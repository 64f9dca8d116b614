package system

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/coord/zookeeper"
	"rideshare/orchestrator/launch/process"
)

// The session of a worker process is as long as its orchestrator's, also by default.
func TestWorkerArgs_HaveTheLengthOfSessions(t *testing.T) {
	for length, want := range map[time.Duration]string{4 * time.Second: "4s", 0: zookeeper.DefaultSessionTimeout.String()} {
		args := workerArgs(Processes{Coordinator: "zk://a:1", Session: length}, process.Spec{ID: "w1", Dir: "d"})
		i := slices.Index(args, "--session")
		if i < 0 || i+1 >= len(args) || args[i+1] != want {
			t.Errorf("session %v: got %q, want --session %s", length, args, want)
		}
	}
}

// A child persdb whose log is a file does not get the settings of a log in PostgreSQL, which it would refuse.
func TestPersdbEnv_SettingsOfPostgresOnlyForPostgres(t *testing.T) {
	settings := []string{"PERSDB_LOG_PASSWORD_FILE=/password", "PERSDB_LOG_SINGLE=true", "PERSDB_RETAIN_FOR=2h"}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		t.Setenv(name, value)
	}
	for url, want := range map[string][]string{"": settings[2:], FileLog: settings[2:], "postgres://u@h/d": settings} {
		env := persdbEnv(Config{Processes: &Processes{CommitLog: Log{URL: url}}})
		got := slices.DeleteFunc(slices.Clone(settings), func(s string) bool { return !slices.Contains(env, s) })
		if !slices.Equal(got, want) {
			t.Errorf("log %q: got %q of the environment, want %q", url, got, want)
		}
	}
}
