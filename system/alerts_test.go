package system_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

var (
	ruleExpr   = regexp.MustCompile(`(?m)^ *expr: (.*)$`)
	ruleAlert  = regexp.MustCompile(`(?m)^ *- alert: (.*)$`)
	ruleRecord = regexp.MustCompile(`(?m)^ *- record: (.*)$`)
	ruleMetric = regexp.MustCompile(`([a-z:]*rideshare_[a-z0-9_:]+)(?:\{([^}]*)\})?`)
	ruleLabel  = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	summed     = regexp.MustCompile(`sum.*rideshare_(events|worker_changes)_total`)
	documented = regexp.MustCompile("(?m)^\\| `(rideshare_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")
)

func deployed(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "deploy"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// series are the names that a rule or a dashboard may ask for, with their labels: those of docs/METRICS.md, which
// another test compares with the running system, and those of the recording rules.
func series(t *testing.T) map[string][]string {
	t.Helper()
	labels := map[string][]string{}
	for _, m := range documented.FindAllStringSubmatch(deployed(t, "..", "docs", "METRICS.md"), -1) {
		labels[m[1]] = strings.Split(strings.TrimSpace(m[3]), ", ")
		if m[2] == "histogram" {
			for _, suffix := range []string{"_count", "_sum", "_bucket"} {
				labels[m[1]+suffix] = labels[m[1]]
			}
		}
	}
	for _, m := range ruleRecord.FindAllStringSubmatch(deployed(t, "prometheus", "recording.yml"), -1) {
		labels[m[1]] = []string{}
	}
	return labels
}

// checkExpr reports what an expression asks for and what is not there.
func checkExpr(t *testing.T, expr string, labels map[string][]string) {
	t.Helper()
	asked := ruleMetric.FindAllStringSubmatch(expr, -1)
	if len(asked) == 0 && !strings.Contains(expr, "ALERTS{") {
		t.Errorf("%s: asks for no metric of ours", expr)
	}
	for _, m := range asked {
		if labels[m[1]] == nil {
			t.Errorf("%s: there is no metric %s", expr, m[1])
		}
		for _, l := range ruleLabel.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels[m[1]], l[1]) {
				t.Errorf("%s: metric %s has no label %s", expr, m[1], l[1])
			}
		}
	}
}

// Every rule uses only metrics and labels that exist, and every alert has a test.
func TestAlerts_NameMetricsThatExist(t *testing.T) {
	labels, tests := series(t), deployed(t, "prometheus", "rules_test.yml")
	for _, file := range []string{"alerts.yml", "recording.yml"} {
		rules := deployed(t, "prometheus", file)
		alerts := ruleAlert.FindAllStringSubmatch(rules, -1)
		exprs := ruleExpr.FindAllStringSubmatch(rules, -1)
		if got, want := len(exprs), len(alerts)+len(ruleRecord.FindAllString(rules, -1)); got != want || want == 0 {
			t.Fatalf("%s: got %d expressions for %d rules", file, got, want)
		}
		for _, expr := range exprs {
			checkExpr(t, expr[1], labels)
		}
		for _, alert := range alerts {
			if !strings.Contains(tests, `ALERTS{alertname="`+alert[1]+`"`) {
				t.Errorf("%s fires in no test of rules_test.yml", alert[1])
			}
		}
	}
}

// Prometheus accepts the configuration of the stack and the rules, each alert fires when it should, and none fires on a healthy system.
func TestAlerts_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		testenv.Cannot(t, false, "promtool is missing (`make setup` installs it): %v", err)
	}
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join("..", "deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Every dashboard asks only for metrics and labels that exist, adds nothing that each orchestrator counts for the whole system,
// and its panels do not overlap.
func TestDashboards_NameMetricsThatExist(t *testing.T) {
	labels := series(t)
	files, err := filepath.Glob(filepath.Join("..", "deploy", "grafana", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("got dashboards %v (%v), want 4", files, err)
	}
	for _, file := range files {
		var board struct {
			UID    string
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal([]byte(deployed(t, "grafana", filepath.Base(file))), &board); err != nil || board.UID == "" || len(board.Panels) == 0 {
			t.Fatalf("%s: got %+v (%v)", file, board, err)
		}
		taken := map[[2]int]string{}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				checkExpr(t, target.Expr, labels)
				if summed.MatchString(target.Expr) {
					t.Errorf("%s: %s adds what several orchestrators each count for the whole system", file, target.Expr)
				}
			}
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if taken[at] != "" || at[0] >= 24 {
						t.Errorf("%s: panel %q covers %q at %v", file, p.Title, taken[at], at)
					}
					taken[at] = p.Title
				}
			}
		}
	}
}
