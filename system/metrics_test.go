package system_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"rideshare/internal/telemetry"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

var update = flag.Bool("update", false, "write docs/METRICS.md anew")

// startSystem runs an embedded system that scales every second.
func startSystem(t *testing.T) *system.System {
	t.Helper()
	registry := telemetry.NewRegistry()
	if _, err := telemetry.NewReloads(registry, "credentials"); err != nil { // as the commands do
		t.Fatal(err)
	}
	inSync := func() (time.Duration, bool) { return 0, true }
	err := telemetry.Register(registry, system.ActiveMetric(func() bool { return true }), system.ClockMetric(inSync), system.LauncherMetric(noWorkers{}))
	if err != nil {
		t.Fatal(err)
	}
	if err = telemetry.Register(registry, telemetry.Expiry(func() time.Time { return time.Now().Add(time.Hour) })); err != nil {
		t.Fatal(err)
	}
	protection := admission.Defaults()
	sys, err := system.Start(t.Context(), system.Config{
		Log: slog.New(slog.DiscardHandler), Name: "test", Data: t.TempDir(), Slaves: 1, CallTimeout: 40 * time.Second, HungAfter: time.Minute, Metrics: registry,
		Gateway: "127.0.0.1:0", Users: "127.0.0.1:0", Rides: "127.0.0.1:0", Orchestrator: "127.0.0.1:0",
		Archive: system.Archive{URL: "file://" + t.TempDir(), Backlog: 1 << 30},
		Scale: system.Scale{
			Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Second,
		},
		Admission: &protection,
		RideRules: system.RideRules{Now: time.Now, Location: time.UTC, UserCheck: "lookup"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := sys.Close(context.Background()); closeErr != nil { // the test's own context has ended
			t.Error(closeErr)
		}
	})
	if err = sys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sys
}

// noWorkers is a launcher without workers.
type noWorkers struct{ launch.Launcher }

func (noWorkers) List(context.Context) ([]launch.Instance, error) { return nil, nil }

// metric is what the documentation says of one.
type metric struct {
	kind, help string
	labels     map[string]bool
}

var (
	described = regexp.MustCompile(`^# (HELP|TYPE) (rideshare_\S+) (.*)$`)
	sample    = regexp.MustCompile(`^(rideshare_[a-z_]+?)(?:_bucket|_sum|_count)?\{(.*)\} `)
	label     = regexp.MustCompile(`(\w+)="`)
)

func parse(text []byte) map[string]*metric {
	all := map[string]*metric{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := described.FindStringSubmatch(line); m != nil {
			if all[m[2]] == nil {
				all[m[2]] = &metric{labels: map[string]bool{}}
			}
			if m[1] == "HELP" {
				all[m[2]].help = m[3]
			} else {
				all[m[2]].kind = m[3]
			}
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || all[m[1]] == nil {
			continue
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				all[m[1]].labels[l[1]] = true
			}
		}
	}
	return all
}

const intro = `# Metrics

Every part has ` + "`GET /metrics`" + ` in Prometheus' text format: the orchestrator, users, rides, persdb and the launcher at their own port, a worker at its control
address. The gateway forwards that path to the rides service: its own metrics are at the listener of ` + "`--admin`" + `, which every part can have. ` + "`up`" + ` has the
metrics of all parts of its process at each of its ports. Besides these there are the ` + "`go_*` and `process_*`" + ` metrics of the Go client. A worker's own port has ` + "`rideshare_worker_applied_seq`" + `,
` + "`_serving`, `_reads_*` and `_events_total`" + `, and its own ` + "`rideshare_bus_*` and `rideshare_clock_difference_seconds`" + `; persdb's own port has ` + "`rideshare_persdb_*` and `rideshare_archive_*`" + `. The orchestrator has those of workers, and the
commits of persdb, only where they run in its process.

This table is checked against the code by a test; ` + "`go test ./system -run Metrics -update`" + ` rewrites it.

| name | type | labels | meaning |
|---|---|---|---|
`

func document(all map[string]*metric) string {
	var b strings.Builder
	b.WriteString(intro)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, strings.Join(slices.Sorted(maps.Keys(m.labels)), ", "), m.help)
	}
	return b.String()
}

// Every metric is named as Prometheus' own linter wants it and is in docs/METRICS.md as
// the running system shows it.
func TestMetrics_LintedAndDocumented(t *testing.T) {
	sys := startSystem(t)
	db := sys.URLs().Orchestrator
	apitest.OK(t, "POST", db+"/api/v1/db/read", `{"table":"users","columns":["username"]}`)
	apitest.OK(t, "POST", db+"/db/execute", `["CREATE TABLE t(n INTEGER PRIMARY KEY)"]`)
	apitest.OK(t, "GET", sys.URLs().Gateway+"/api/v1/_count", "")
	var text []byte
	testenv.Eventually(t, time.Minute, func() error {
		text = []byte(apitest.OK(t, "GET", db+"/metrics", ""))
		for _, late := range []string{
			"rideshare_scaling_decisions_total{", `rideshare_events_total{kind="scale"} 0`, `rideshare_queue_messages{queue="dead.write"} 0`, `part="gateway"`, `change="serving"`, `{change="hung",role="slave"} 0`, "rideshare_scaling_wanted_slaves{",
			"rideshare_worker_applied_seq{", "rideshare_worker_serving{", "rideshare_worker_reads_busy_seconds_total{", "rideshare_worker_reads_places_seconds_total{", "rideshare_worker_events_total{",
		} {
			if !bytes.Contains(text, []byte(late)) {
				return fmt.Errorf("no %s yet", late)
			}
		}
		return nil
	})
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if !bytes.Contains(text, []byte("\n"+want+" ")) {
			t.Errorf("no %s", want)
		}
	}
	path := filepath.Join("..", "docs", "METRICS.md")
	want := document(parse(text))
	if *update {
		if err = os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/METRICS.md (-system +document):\n%s", diff)
	}
}
