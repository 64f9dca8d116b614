package fault_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// The id of a request is in the log of each part that the request went through: the orchestrator, the master or a
// slave, and for a write persdb.
func TestSystem_RequestID_InTheLogsOfAllParts(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, "LOG_LEVEL=debug", patient)
	write := sys.call(t, "/db/execute", "write-id", "CREATE TABLE t(n INTEGER PRIMARY KEY)")
	read := sys.call(t, "/db/query", "read-id", "SELECT * FROM t")
	testenv.Eventually(t, healLimit, func() error {
		for id, want := range map[string][]string{write: {"persdb", "up", "worker"}, read: {"up", "worker"}} {
			if got := sys.partsOf(t, id); !slices.Equal(got, want) {
				return fmt.Errorf("parts with a line of %s: got %v, want %v", id, got, want)
			}
		}
		if w, r := sys.workersOf(t, write), sys.workersOf(t, read); len(w) != 1 || len(r) != 1 || w[0] == r[0] {
			return fmt.Errorf("workers of the write %v and of the read %v, want the master and a slave", w, r)
		}
		return nil
	})
}

// call sends a statement with a request id and returns the id.
func (s *system) call(t *testing.T, path, id, statement string) string {
	t.Helper()
	a, err := s.try(t.Context(), http.MethodPost, path, []string{statement}, "X-Request-Id", id)
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: got %d %.300s, %v, want 200", statement, a.status, a.body, err)
	}
	return id
}

func (s *system) partsOf(t *testing.T, id string) []string {
	t.Helper()
	return s.valuesOf(t, id, "part")
}

func (s *system) workersOf(t *testing.T, id string) []string {
	t.Helper()
	return s.valuesOf(t, id, "worker")
}

// valuesOf returns the distinct values of a key in the log lines of a request, sorted.
func (s *system) valuesOf(t *testing.T, id, key string) []string {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for text := range strings.Lines(string(text)) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) != nil || line["request_id"] != id { // not every line is JSON
			continue
		}
		if value, ok := line[key].(string); ok {
			found[value] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
