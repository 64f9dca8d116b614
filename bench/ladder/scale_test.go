package ladder

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/loadgen"
	"rideshare/internal/progressbar"
)

// scalable is the orchestrator's API with as many slaves as were asked for.
type scalable struct {
	mu     sync.Mutex // guards the fields below
	slaves int
	turns  map[float64]bool // of the reads
	reads  map[int]int      // by the number of slaves, before the autoscaler has a load
	auto   bool             // the autoscaler has one
}

func (s *scalable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer any = map[string]any{}
	switch r.URL.Path {
	case "/api/v1/cluster":
		c := api.Cluster{Desired: s.slaves, Members: []api.Member{{PID: 1, Role: "master", Ready: true}}}
		for i := range s.slaves {
			c.Members = append(c.Members, api.Member{PID: 100 + i, Role: "slave", Ready: true})
		}
		answer = c
	case "/api/v1/scaling":
		var to settings
		if json.Unmarshal(body, &to) == nil && to.Min > s.slaves || to.Max < s.slaves {
			s.slaves = to.Min
		}
		s.auto = s.auto || to.ReadsPerSlave > 0
	case "/db/query":
		var statements [][]any
		if json.Unmarshal(body, &statements) == nil && r.URL.RawQuery == "" {
			s.turns[statements[0][1].(float64)] = true
			if !s.auto {
				s.reads[s.slaves]++
			}
		}
		answer = map[string]any{"results": []any{map[string]any{"time": 0.0005}}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// A run measures each number of slaves in turn, with reads that cost a millisecond, and limits each slave, and no master.
func TestScale_Run(t *testing.T) {
	fake := &scalable{slaves: 1, turns: map[float64]bool{}, reads: map[int]int{}}
	server := httptest.NewServer(fake)
	defer server.Close()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	groups, err := newShares(root, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	s := &scaleRun{
		ScaleConfig: ScaleConfig{Share: 0.1, Slaves: []int{1, 3}, Clients: 2, Length: 200 * time.Millisecond, Policy: "reads", Period: time.Second, Step: 900 * time.Millisecond, Progress: progressbar.Output{Writer: io.Discard}},
		measured:    newMeasured(server.URL), shares: groups, limited: map[int]bool{},
	}
	defer s.HTTP.CloseIdleConnections()
	report, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Steps) != 2 || report.Steps[0].Slaves != 1 || report.Steps[1].Slaves != 3 || report.Steps[0].Ratio != 1 || fake.reads[1] == 0 || fake.reads[3] == 0 {
		t.Errorf("got steps %+v and reads %v, want those of 1 and 3 slaves", report.Steps, fake.reads)
	}
	if a := report.Auto; a == nil || len(a.Seconds) == 0 || a.ReadsPerSlave < 1 {
		t.Errorf("got %+v, want the seconds of the load", a)
	}
	if len(fake.turns) != 1 || !fake.turns[2*firstTurns] {
		t.Errorf("got reads of %v turns, want %d: the timed ones took half a millisecond", fake.turns, 2*firstTurns)
	}
	for pid, want := range map[int]bool{1: false, 100: true, 101: true, 102: true} {
		if _, err := os.Stat(filepath.Join(groups.dir, strconv.Itoa(pid), "cpu.max")); (err == nil) != want {
			t.Errorf("process %d limited: got %v, want %t", pid, err, want)
		}
	}
	var text, page strings.Builder
	if err := report.Print(&text); err != nil || !strings.Contains(text.String(), "reads/s") {
		t.Errorf("got %q, %v", &text, err)
	}
	if err := report.WriteHTML(&page); err != nil || strings.Count(page.String(), `<script type="application/json">`) != 4 {
		t.Errorf("got %d charts, %v, want 4", strings.Count(page.String(), `<script type="application/json">`), err)
	}
}

// A step has the figures of the second phase. Its rate counts reads that did not fail.
func TestStepOf(t *testing.T) {
	warmUp := loadgen.Stretch{Took: time.Second, Figures: loadgen.Figures{Count: 100}}
	for name, test := range map[string]struct {
		measured loadgen.Stretch
		want     ScaleStep
	}{
		"AllGood": {
			loadgen.Stretch{Took: 2 * time.Second, Figures: loadgen.Figures{Count: 10, P50: time.Millisecond, P99: 3 * time.Millisecond}},
			ScaleStep{Slaves: 3, Rate: 5, P50: 1, P99: 3},
		},
		"SomeFailed": {loadgen.Stretch{Took: 2 * time.Second, Figures: loadgen.Figures{Count: 10, Failed: 5}}, ScaleStep{Slaves: 3, Rate: 2.5, Failed: 5}},
		"None":       {loadgen.Stretch{Took: 2 * time.Second}, ScaleStep{Slaves: 3}},
	} {
		if got := stepOf(3, []loadgen.Stretch{warmUp, test.measured}); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// A slave that cannot be limited ends the run: its figures would be wrong.
func TestScale_Run_SlaveNotLimited_IsAnError(t *testing.T) {
	server := httptest.NewServer(&scalable{slaves: 1, turns: map[float64]bool{}, reads: map[int]int{}})
	defer server.Close()
	s := &scaleRun{
		ScaleConfig: ScaleConfig{Slaves: []int{1}, Clients: 1, Length: time.Millisecond, Progress: progressbar.Output{Writer: io.Discard}},
		measured:    newMeasured(server.URL), shares: &shares{dir: filepath.Join(os.DevNull, "none")}, limited: map[int]bool{},
	}
	defer s.HTTP.CloseIdleConnections()
	if _, err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "limit the slaves' processor time") {
		t.Errorf("got %v", err)
	}
}
