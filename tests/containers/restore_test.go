package containers

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The whole database is deleted by mistake. A restore from the archive, which the stack keeps by default, brings back the state
// of a moment before: the replicas follow, every acknowledged write is there, and a position of the deleted database is gone. A
// copy made by hand works too, although the archive has later positions of its cluster.
func (s *stack) testRestore(t *testing.T, w *writer) {
	t.Helper()
	old := s.knownCluster(t)
	dir, rabbitmq := t.TempDir(), s.of(t, "rabbitmq").Config.Image
	// block runs a block of docs/OPERATIONS.md on this stack, in dir.
	block := func(heading string, number int, replaced ...string) {
		t.Helper()
		replaced = append(replaced, "$PWD", dir, "rideshare_", s.project+"_", "rideshare/rideshare:local", "rideshare/rideshare:"+s.project, "rideshare/rabbitmq:debian12", rabbitmq)
		script := strings.NewReplacer(replaced...).Replace(s.block(t, heading, number))
		if out, failure := s.run(t.Context(), "env", "ORCHESTRATOR_URL="+s.orchestrator, "bash", "-euc", script); failure != nil {
			s.keepLogs(t, "restore")
			t.Fatalf("%s: %v\n%s", script, failure, out)
		}
		s.awaitWhole(t)
	}
	block("Backup by hand", 1)
	before := time.Now()
	s.testClear(t)
	block("Restore", 2, "file:///archive", "file:///archive --at "+before.UTC().Format(time.RFC3339Nano))
	w.verify(t)
	status, text, err := s.try(t.Context(), http.MethodPost, s.orchestrator+"/db/query", `["SELECT 1"]`, "X-Cluster-Id", old.ClusterID, "X-Min-Seq", "1")
	if err != nil || status != http.StatusGone || !strings.Contains(text, `"gone"`) {
		t.Errorf("a position of the old database: got %d %s (%v), want 410 with the code gone", status, text, err)
	}
	block("Restore", 1)
	w.verify(t)
	if now := s.knownCluster(t); now.ClusterID != old.ClusterID {
		t.Errorf("with the copy: got cluster %s, want %s", now.ClusterID, old.ClusterID)
	}
}

// block returns a block of commands below a heading of docs/OPERATIONS.md.
func (s *stack) block(t *testing.T, heading string, number int) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(s.root, "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "\n```sh\n")
	if len(blocks) <= number {
		t.Fatalf("%s has %d blocks, want %d", heading, len(blocks)-1, number)
	}
	commands, _, _ := strings.Cut(blocks[number], "\n```\n")
	return commands
}
