package system

import (
	"slices"
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
