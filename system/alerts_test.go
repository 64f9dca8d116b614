package system_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	ruleExpr   = regexp.MustCompile(`(?m)^ *expr: (.*)$`)
	ruleMetric = regexp.MustCompile(`(rideshare_[a-z_]+)(?:\{([^}]*)\})?`)
	ruleLabel  = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	documented = regexp.MustCompile("(?m)^\\| `(rideshare_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")
)

// Every alert uses only metrics and labels that are in docs/METRICS.md, which another test compares with the running
// system.
func TestAlerts_NameMetricsThatExist(t *testing.T) {
	root := ".."
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		labels[m[1]] = strings.Split(strings.TrimSpace(m[3]), ", ")
		if m[2] == "histogram" {
			labels[m[1]+"_count"] = labels[m[1]]
		}
	}
	exprs := ruleExpr.FindAllStringSubmatch(string(rules), -1)
	if got, want := len(exprs), strings.Count(string(rules), "- alert: "); got != want || want == 0 {
		t.Fatalf("got %d expressions for %d alerts", got, want)
	}
	for _, expr := range exprs {
		asked := ruleMetric.FindAllStringSubmatch(expr[1], -1)
		if len(asked) == 0 {
			t.Errorf("%s: asks for no metric of ours", expr[1])
		}
		for _, m := range asked {
			if labels[m[1]] == nil {
				t.Errorf("%s: there is no metric %s", expr[1], m[1])
			}
			for _, l := range ruleLabel.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels[m[1]], l[1]) {
					t.Errorf("%s: metric %s has no label %s", expr[1], m[1], l[1])
				}
			}
		}
	}
}
