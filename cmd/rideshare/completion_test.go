package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func script(t *testing.T, shell string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"completion", shell}, &stdout, &stderr); code != exitDone {
		t.Fatalf("got %d, %s", code, stderr.String())
	}
	return stdout.String()
}

// bash takes the script without a complaint, and completes commands, flags and values with it.
func TestCompletion_Bash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rideshare.bash")
	if err := os.WriteFile(file, []byte(script(t, "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("bash -n: %v, %s", err, out)
	}
	for typed, want := range map[string][]string{
		"rideshare st":                 {"status"},
		"rideshare archive v":          {"verify"},
		"rideshare archive list --cl":  {"--cluster"},
		"rideshare up --launcher p":    {"process"},
		"rideshare up --launcher = d":  {"docker"}, // how bash splits --launcher=d
		"rideshare up --launcher =":    {"inproc", "process", "docker"},
		"rideshare up --demo --hung":   {"--hung-after"},
		"rideshare completion f":       {"fish"},
		"rideshare up --data x":        nil, // a folder, which bash completes by itself
		"rideshare user ann adm":       {"admin"},
		"rideshare shell --mode table": {"table"},
	} {
		ask := exec.CommandContext(t.Context(), "bash", "-c", `source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rideshare; echo "${COMPREPLY[@]}"`, "bash", file, typed)
		out, err := ask.Output()
		if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v (%v), want %v", typed, got, err, want)
		}
	}
}

// Each script has every command and flag, and nothing that is hidden.
func TestCompletion_AllShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text := script(t, shell)
		for _, want := range []string{"healthcheck", "verify", "hung-after", "log-format", "worker-cpus", "version"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: there is no %s", shell, want)
			}
		}
		if strings.Contains(text, "/bench/serve") {
			t.Errorf("%s: a hidden command is shown", shell)
		}
	}
}
