package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// The blocks of docs/CLIENTS.md run unchanged, except for the address of the system, and can be run twice.
func TestClients_BlocksOfThePage_Run(t *testing.T) {
	sys := shared(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLIENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Exec(t, "DROP TABLE IF EXISTS notes") })
	// Without this, the downloads of `go run` would be part of its output.
	if code, out := runClient(t, "", nil, "go", "-C", clientsDir, "mod", "download"); code != 0 {
		t.Fatalf("download the clients' modules: %s", out)
	}
	for _, c := range []struct {
		language, pkg string // pkg is the Debian package of the command
		file          string
		command       []string // the file's path follows
	}{
		{"sh", "curl", "x.sh", []string{"sh", "-eu"}},
		{"go", "golang", "main.go", []string{"go", "run", "-C", clientsDir}},
		{"python", "python3", "x.py", []string{"python3"}},
		{"js", "nodejs", "x.js", []string{"node"}},
	} {
		t.Run(c.language, func(t *testing.T) {
			_, block, found := strings.Cut(string(page), "\n```"+c.language+"\n")
			block, _, closed := strings.Cut(block, "\n```\n")
			if !found || !closed {
				t.Fatal("the page has no such block")
			}
			needed := c.command[0]
			if c.pkg == "curl" {
				needed = c.pkg
			}
			if _, err := exec.LookPath(needed); err != nil {
				testenv.Cannot(t, false, "%s is missing: apt-get install %s", needed, c.pkg)
			}
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(block, "http://127.0.0.1:8083", sys.Orchestrator)), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if code, out := runClient(t, "", nil, c.command[0], append(c.command[1:], file)...); code != 0 || out != "1 hello\n" {
					t.Errorf("exit code %d, want 0; got %q, want %q", code, out, "1 hello\n")
				}
			}
		})
	}
}
