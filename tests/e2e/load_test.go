package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// loadReport has the fields of `load --json` that this test reads.
type loadReport struct {
	Load struct {
		All struct {
			Count    int
			Failed   int
			Failures map[string]int
		}
		Unsent int
	}
	Samples []struct {
		Ready   int
		Problem string
	}
	Decisions []struct {
		Count, Wanted int
		Done          bool
		Why           string
	}
	Check struct{ OK bool }
}

const (
	loadPeriod   = 5 * time.Second
	loadPerSlave = 20
	loadSlaves   = 3
)

// Slaves are added under load and removed after it. No request fails, everything acknowledged is there, and each
// scaling decision follows from the reads that it counted.
//
// RIDESHARE_LOAD_READY_FILE names the ready file of a running system to do this on, with a
// SCALE_PERIOD of 5s, 20 reads for each slave and at most 3 slaves.
func TestLoad_SlavesComeAndGo_NothingFails(t *testing.T) {
	readyFile := os.Getenv("RIDESHARE_LOAD_READY_FILE")
	if readyFile == "" {
		sys := start(t, setup{env: []string{
			"SCALE_PERIOD=" + loadPeriod.String(), fmt.Sprintf("SCALE_READS_PER_SLAVE=%d", loadPerSlave), fmt.Sprintf("SCALE_MAX=%d", loadSlaves),
		}})
		readyFile = sys.readyFile()
	}
	r := runLoad(t, readyFile, "quiet 6s 1; busy 16s 40; quiet 38s 1")
	if !r.Check.OK || r.Load.All.Failed != 0 || r.Load.All.Count+r.Load.Unsent != 684 {
		t.Errorf("load: got %s, want a good check, 684 requests and no failure", toJSON(r.Load))
	}
	ready := make([]int, 0, len(r.Samples))
	for _, s := range r.Samples {
		if s.Problem == "" {
			ready = append(ready, s.Ready)
		}
	}
	most := slices.Index(ready, loadSlaves)
	if most < 0 || ready[0] != 1 || ready[len(ready)-1] != 1 {
		t.Errorf("slaves each second: got %v, want 1, then %d, then 1", ready, loadSlaves)
	}
	if most >= 0 && slices.Max(ready) > loadSlaves {
		t.Errorf("slaves each second: got %v, want never more than %d", ready, loadSlaves)
	}
	if len(r.Decisions) < 9 {
		t.Errorf("decisions: got %d in 60s, want one every %v", len(r.Decisions), loadPeriod)
	}
	for i, d := range r.Decisions {
		done := d.Done || i == len(r.Decisions)-1 || strings.Contains(d.Why, "overtaken") // the newest may still be carried out
		if want := max(1, min(loadSlaves, (d.Count+loadPerSlave-1)/loadPerSlave)); d.Wanted != want || !done || d.Why == "" {
			t.Errorf("decision: got %+v, want %d slaves, done, with a reason", d, want)
		}
	}
}

// runLoad runs `rideshare load` with these phases, which must end well, and returns what it reports.
func runLoad(t *testing.T, readyFile, phases string) loadReport {
	t.Helper()
	file := filepath.Join(t.TempDir(), "load.json")
	// No new users: hashing passwords is slow by design, and slower on a busy machine.
	cmd := exec.CommandContext(t.Context(), suite.binary, "load", "--ready-file", readyFile, "--phases", phases,
		"--mix", "create-ride=10,join=10,listing=20,ride=25,db-read=25,db-write=10", "--pool-users", "5", "--max-failed", "0", "--json", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("load: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "slaves 1 of 1") {
		t.Errorf("load tells no progress: %s", out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r loadReport
	if err = json.Unmarshal(text, &r); err != nil {
		t.Fatalf("report: %v", err)
	}
	return r
}
