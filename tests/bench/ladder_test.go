// Package bench runs each benchmark briefly and checks that all answers were right. It asserts nothing about speed.
package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// limit bounds one run, on a busy machine.
const limit = 5 * time.Minute

// binaryDir is where binary builds. TestMain makes and removes it.
var binaryDir string

func TestMain(m *testing.M) {
	os.Exit(runAll(m)) //nolint:forbidigo // TestMain is the main of this binary.
}

func runAll(m *testing.M) int {
	var err error
	if binaryDir, err = os.MkdirTemp("", "rideshare-bench-"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binaryDir) }()
	return m.Run()
}

// binary returns the path of the delivered binary, built once.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(binaryDir, "rideshare")
	return file, errors.Join(testenv.NoteSources("../.."), testenv.BuildBinary(file))
})

// run runs `bench` on the services of the tests and returns what it prints. It must leave nothing behind.
func run(t *testing.T, args ...string) string {
	t.Helper()
	bus, coordinator := testenv.RabbitMQ(t), testenv.ZooKeeper(t)
	u, err := url.Parse(coordinator)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"bench"}, args...)...)
	cmd.Env = append(os.Environ(), "BENCH_BUS="+bus, "BENCH_COORDINATOR="+u.String(), "TMPDIR="+temp)
	cmd.WaitDelay = limit
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("bench: %v\n%s", err, out)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("got %v left behind, %v; want nothing", left, err)
	}
	return string(out)
}

// report is what `bench` writes.
type report struct {
	Machine map[string]string `json:"machine"`
	Rows    []struct {
		Work    string             `json:"work"`
		Path    string             `json:"path"`
		Clients int                `json:"clients"`
		Loop    string             `json:"loop"`
		Rate    float64            `json:"rate"`
		Errors  int64              `json:"errors"`
		Invalid string             `json:"invalid"`
		Samples []float64          `json:"samples"`
		CPU     map[string]float64 `json:"cpu_us"`
		Lag     []struct {
			Before uint64 `json:"before"`
		} `json:"lag"`
	} `json:"rows"`
	Seed   uint64             `json:"seed"`
	Ratios map[string]float64 `json:"ratios"`
}

// Every path answers every work of the ladder correctly, and leaves nothing behind.
func TestLadder_EveryAnswerIsRight(t *testing.T) {
	figures := filepath.Join(t.TempDir(), "figures.json")
	page := filepath.Join(t.TempDir(), "page.html")
	postgres, passwordFile := testenv.SharedPostgres(t)
	out := run(t, "--clients", "4", "--duration", "200ms", "--rounds", "2", "--rows", "2000", "--seed", "7", "--json", figures, "--html", page,
		"--postgres", postgres, "--postgres-password-file", passwordFile)
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err = json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range got.Rows {
		seen[row.Path+"/"+row.Work] = true
		if row.Errors != 0 || row.Invalid != "" || row.Rate <= 0 || len(row.Samples) != 2 {
			t.Errorf("%s on %s, %d clients, %s loop: got %d errors (%s), rate %v, %d samples; want none, more than 0, 2",
				row.Work, row.Path, row.Clients, row.Loop, row.Errors, row.Invalid, row.Rate, len(row.Samples))
		}
		for _, lag := range row.Lag {
			if lag.Before != 0 {
				t.Errorf("%s on %s began %d entries behind", row.Work, row.Path, lag.Before)
			}
		}
		if product := strings.HasPrefix(row.Path, "batched"); product && len(row.Lag) != len(row.Samples) {
			t.Errorf("%s on %s: lag read in %d rounds of %d", row.Work, row.Path, len(row.Lag), len(row.Samples))
		}
		if row.Loop != "open" && row.Loop != "closed" {
			t.Errorf("got loop %q, want open or closed", row.Loop)
		}
	}
	for _, want := range []string{
		"http/point-read", "inprocess/point-read", "batched/point-read", "embedded/point-read", "unbatched/point-read", "tutorial/point-read", "rpc-best/point-read",
		"batched/20-row-read", "batched/write", "batched-0/write", "batched-2/write", "batched-postgres/write", "tutorial/write", "rpc-best/write", "batched/mixed-90-10", "batched/ride-get", "batched/point-beside-slow",
	} {
		if !seen[want] {
			t.Errorf("no row %s", want)
		}
	}
	for _, ratio := range []string{"point-read/batched/inprocess", "write/batched-2/inprocess", "write/batched-postgres/batched", "point-read/batched/tutorial", "write/batched/rpc-best", "ride-get/batched/point-read"} {
		if got.Ratios[ratio] <= 0 {
			t.Errorf("no ratio %s", ratio)
		}
	}
	if got.Seed != 7 || got.Machine["cores"] == "" || !strings.Contains(out, "rate/s") {
		t.Errorf("got seed %d, machine %v and output\n%s", got.Seed, got.Machine, out)
	}
	if html, htmlErr := os.ReadFile(page); htmlErr != nil || bytes.Count(html, []byte(`<script type="application/json">`)) < 10 {
		t.Errorf("got a page of %d bytes, %v; want one with plots", len(html), htmlErr)
	}
}
