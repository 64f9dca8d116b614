package containers

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The whole database is deleted by mistake. A restore from the archive, which the stack keeps by default, brings back what was
// there a moment before: the replicas follow, everything acknowledged is there, and a position of the deleted database is gone.
func (s *stack) testRestore(t *testing.T, w *writer) {
	t.Helper()
	old, err := s.cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	s.testClear(t)
	s.down(t)
	volume := func(name string) string {
		return s.docker(t, "volume", "inspect", "-f", "{{.Mountpoint}}", s.project+"_"+name)
	}
	restored, data := filepath.Join(t.TempDir(), "restored"), volume("persdb")
	for _, command := range [][]string{
		{filepath.Join(s.root, "bin", "image", "rideshare"), "restore", "--from", "file://" + volume("archive"), "--at", before.Format(time.RFC3339Nano), "--data", restored},
		{"find", data, "-mindepth", "1", "-delete"},
		{"cp", "-R", restored + "/.", data},
		{"chown", "-R", userOf("persdb"), data},
	} {
		if _, err = s.run(t.Context(), command[0], command[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	s.up(t)
	w.verify(t)
	status, text, err := s.try(t.Context(), http.MethodPost, s.orchestrator+"/db/query", `["SELECT 1"]`, "X-Cluster-Id", old.ClusterID, "X-Min-Seq", "1")
	if err != nil || status != http.StatusGone || !strings.Contains(text, `"gone"`) {
		t.Errorf("a position of the old database: got %d %s (%v), want 410 with the code gone", status, text, err)
	}
}
