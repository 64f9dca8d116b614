package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"rideshare/orchestrator/launch/docker"
)

// Workers in containers belong to the system whose name they have. The name of an `up` depends on its data folder, so it differs from
// that of any other `up` and of the stack of `make up`, and stays the same after a restart. The user's own names come first.
func TestDockerStack_NamesOneSystem(t *testing.T) {
	stackOf := func(data string, change dockerSettings) string {
		change.DockerUser = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
		p, err := (&upCommand{Data: data, Launcher: launcherDocker, dockerSettings: change}).processes()
		if err != nil {
			t.Fatal(err)
		}
		return p.Docker.Stack
	}
	dir := t.TempDir()
	t.Chdir(dir)
	a, b := stackOf("a", dockerSettings{}), stackOf("b", dockerSettings{})
	if a == b || a == "rideshare" || b == "rideshare" || a == "" || b == "" {
		t.Errorf("got %q and %q for two data folders, want two names of their own", a, b)
	}
	if again := stackOf(filepath.Join(dir, "a"), dockerSettings{}); again != a {
		t.Errorf("after a restart: got %q, want %q", again, a)
	}
	for want, got := range map[string]string{
		"given":     stackOf("a", dockerSettings{DockerStack: "given", DockerProject: "project"}),
		"project":   stackOf("a", dockerSettings{DockerProject: "project"}),
		"rideshare": dockerSettings{}.docker("").Stack,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The limits of a worker in a container come from the settings, in bytes.
func TestDockerSettings_Limits(t *testing.T) {
	got := dockerSettings{DockerUser: "1:1", WorkerMemoryMiB: 512, WorkerReplicaMiB: 64, WorkerAnswerMiB: 32, WorkerCPUs: 2, WorkerPIDs: 64}.docker("bus").Limits
	if want := (docker.Limits{User: "1:1", Memory: 512 << 20, Replica: 64 << 20, Answers: 32 << 20, CPUs: 2, PIDs: 64}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
