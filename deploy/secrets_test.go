package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The scripts make each secret once. The keys of a bucket are empty until somebody writes them, and then stay.
func TestSecrets_AreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(dir, "launcher-token.new")); err != nil { // left of an interrupted run, and nothing can be written to it
		t.Fatal(err)
	}
	read := func() map[string]string {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "bash", "secrets.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		all := map[string]string{}
		for _, name := range []string{"orchestrator-bus", "worker-bus", "launcher-token", "api-credentials", "postgres-superuser", "postgres-log", "archive-key"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
		return all
	}
	first := read()
	if first["archive-key"] != "" || len(first["launcher-token"]) != 64 {
		t.Errorf("got %q as archive-key and a token of %d characters, want none and 64", first["archive-key"], len(first["launcher-token"]))
	}
	key := filepath.Join(dir, "archive-key")
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	first["archive-key"] = "access\nsecret\n"
	if err := os.WriteFile(key, []byte(first["archive-key"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range read() {
		if text != first[name] {
			t.Errorf("%s: got %q at the second run, want %q", name, text, first[name])
		}
	}
}
