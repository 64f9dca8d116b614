package docker_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// A worker has only the rights that it needs, has a bound on every resource, and `docker inspect` shows no secret.
func TestWorker_IsLockedDown(t *testing.T) {
	t.Parallel()
	b := engine(t)
	c := b.config(t)
	c.Project = c.Stack
	l := b.launcher(t, c)
	i := mustStart(t, l, "s1")
	in, err := b.sdk.ContainerInspect(t.Context(), string(i.ID)) // the engine knows it by that id
	if err != nil {
		t.Fatal(err)
	}
	host, limits := in.HostConfig, in.HostConfig.Resources
	for what, ok := range map[string]bool{
		"user":               in.Config.User == "65532:65532",
		"read-only root":     host.ReadonlyRootfs,
		"no capability":      slices.Equal(host.CapDrop, []string{"ALL"}) && len(host.CapAdd) == 0,
		"no new privileges":  slices.Contains(host.SecurityOpt, "no-new-privileges:true"),
		"not privileged":     !host.Privileged && host.PidMode == "" && host.IpcMode != "host",
		"memory, no swap":    limits.Memory == 128<<20 && limits.MemorySwap == limits.Memory,
		"cpus":               limits.NanoCPUs == 1e9,
		"pids":               limits.PidsLimit != nil && *limits.PidsLimit == 64,
		"replica in memory":  strings.Contains(host.Tmpfs["/replica"], "size=16777216") && strings.Contains(host.Tmpfs["/replica"], "uid=65532,gid=65532"),
		"init":               host.Init != nil && *host.Init,
		"bounded logs":       host.LogConfig.Config["max-size"] != "" && host.LogConfig.Config["max-file"] != "",
		"no restart":         host.RestartPolicy.Name == container.RestartPolicyDisabled,
		"kept until removed": !host.AutoRemove,
		"one read-only file": len(in.Mounts) == 1 && !in.Mounts[0].RW && in.Mounts[0].Destination == "/run/secrets/bus",
		"pid":                in.State.Pid == i.PID,
		"own network only":   len(in.NetworkSettings.Networks) == 1 && in.NetworkSettings.Networks[b.network] != nil,
		"control by name":    i.Control == "http://"+strings.TrimPrefix(in.Name, "/")+":9540",
		"a compose worker": in.Config.Labels["com.docker.compose.project"] == c.Project && in.Config.Labels["com.docker.compose.service"] == "worker" &&
			in.Config.Labels["com.docker.compose.oneoff"] == "False" && in.Config.Labels["com.docker.compose.container-number"] != "",
		"labels": in.Config.Labels["rideshare.stack"] == c.Stack && in.Config.Labels["rideshare.start"] == "s1" && in.Config.Labels["rideshare.generation"] != "",
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
	all, err := json.Marshal(in)
	if err != nil || strings.Contains(string(all), "hidden") {
		t.Errorf("error %v, or the broker's password is in docker inspect", err)
	}
}

// What the engine cannot run is a final error with the reason, and leaves no container.
func TestStart_Impossible_OnARealEngine(t *testing.T) {
	t.Parallel()
	b := engine(t)
	for name, one := range map[string]struct {
		change func(*docker.Config)
		says   string
	}{
		"MissingImage":   {func(c *docker.Config) { c.Image = runName + ":missing" }, "make images"},
		"MissingNetwork": {func(c *docker.Config) { c.Network = runName + "-missing" }, runName + "-missing"},
		"MissingBusFile": {func(c *docker.Config) { c.BusFile += "-missing" }, "bus-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := b.config(t)
			one.change(&c)
			l := b.launcher(t, c)
			_, err := l.Start(t.Context(), "s1")
			if err == nil || errors.Is(err, launch.ErrUnavailable) || !strings.Contains(err.Error(), one.says) {
				t.Errorf("got %v, want a final error that names %s", err, one.says)
			}
			if left := b.containers(t, c.Stack); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// An engine that is not there is unavailable, not a final error.
func TestLauncher_EngineAway_IsUnavailable(t *testing.T) {
	t.Parallel()
	c := fakeConfig(nil)
	dialled, err := docker.Dial("unix://" + t.TempDir() + "/none.sock")
	if err != nil {
		t.Fatal(err)
	}
	c.Engine = dialled
	l, err := docker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	_, started := l.Start(t.Context(), "s1")
	_, listed := l.List(t.Context())
	for what, err := range map[string]error{
		"start": started, "list": listed, "kill": l.Kill(t.Context(), "w1"),
		"stop": l.Stop(t.Context(), "w1", time.Second), "remove": l.Remove(t.Context(), "w1"),
	} {
		if !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("%s: got %v, want %v", what, err, launch.ErrUnavailable)
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A paused worker is reported as running, and a kill ends it.
func TestKill_Paused(t *testing.T) {
	t.Parallel()
	b := engine(t)
	l := b.launcher(t, b.config(t))
	i := mustStart(t, l, "s1")
	if err := b.sdk.ContainerPause(t.Context(), string(i.ID)); err != nil {
		t.Fatal(err)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 || !list[0].Running || list[0].PID != i.PID {
		t.Errorf("paused: got %+v and error %v, want it running with pid %d", list, err, i.PID)
	}
	if err := l.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 || list[0].Running || list[0].ExitCode != 137 {
		t.Errorf("killed: got %+v and error %v, want it dead with 137", list, err)
	}
}

// A second launcher of the stack, as after a restart, finds the workers of the first, by the labels alone. A launcher of
// another stack finds none of them.
func TestLauncher_RestartedFindsItsWorkers(t *testing.T) {
	t.Parallel()
	b := engine(t)
	c := b.config(t)
	first := b.launcher(t, c)
	i := mustStart(t, first, "s1")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, stranger := b.launcher(t, c), b.launcher(t, b.config(t))
	again := mustStart(t, second, "s1")
	if again.ID != i.ID || again.PID != i.PID || again.Control != i.Control {
		t.Errorf("same start: got %+v, want %+v", again, i)
	}
	if list, err := stranger.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("another stack: got %+v and error %v, want none", list, err)
	}
	if err := stranger.Kill(t.Context(), i.ID); !errors.Is(err, launch.ErrNoWorker) {
		t.Errorf("kill by another stack: got %v, want %v", err, launch.ErrNoWorker)
	}
	if err := second.Kill(t.Context(), i.ID); err != nil {
		t.Errorf("kill: %v", err)
	}
}

// The last output of a worker that died by itself, from either stream, is in our log.
func TestRemove_LastWords_OnARealEngine(t *testing.T) {
	t.Parallel()
	b := engine(t)
	c, log := b.config(t), &logs{}
	c.Log = slog.New(slog.NewJSONHandler(log, nil))
	l := b.launcher(t, c)
	w := b.world(l)
	i, err := w.Start(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	w.Exit(t, i.ID, 3)
	awaitEnd(t, l, i.ID)
	if err := l.Remove(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "stub ends with 3") || !strings.Contains(text, `"code":3`) {
		t.Errorf("got log\n%s\nwant its last words and its code", text)
	}
}
