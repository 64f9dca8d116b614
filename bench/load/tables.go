package load

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/bench/report"
)

// stretchHead returns the column heads for stretchRow.
func stretchHead(name string) []string {
	return []string{name, "requests", "rate/s", "failed", "p50", "p90", "p99", "p99.9", "max"}
}

func stretchRow(s loadgen.Stretch) []string {
	return []string{
		s.Name, strconv.FormatInt(s.Count, 10), fmt.Sprintf("%.1f", s.Rate()), strconv.FormatInt(s.Failed, 10),
		latency(s.P50), latency(s.P90), latency(s.P99), latency(s.P999), latency(s.Max),
	}
}

// tables returns the figures of a run as tables, for terminal and page.
func (r *Result) tables() []report.Table {
	kinds := report.Table{Caption: "By kind", Head: stretchHead("kind")}
	for _, s := range r.Load.Kinds {
		kinds.Rows = append(kinds.Rows, stretchRow(s))
	}
	all := r.Load.All
	all.Name = "all"
	kinds.Rows = append(kinds.Rows, stretchRow(all))
	tables := []report.Table{kinds}
	if len(r.Load.Phases) > 1 {
		phases := report.Table{Caption: "By phase", Head: stretchHead("phase")}
		for _, s := range r.Load.Phases {
			phases.Rows = append(phases.Rows, stretchRow(s))
		}
		tables = append(tables, phases)
	}
	if len(all.Failures) > 0 {
		failures := report.Table{Caption: "Failures", Head: []string{"failure", "requests"}}
		for _, name := range slices.Sorted(maps.Keys(all.Failures)) {
			failures.Rows = append(failures.Rows, []string{name, strconv.FormatInt(all.Failures[name], 10)})
		}
		tables = append(tables, failures)
	}
	return tables
}

// scaling returns the decisions of a run as a table.
func (r *Result) scaling() report.Table {
	t := report.Table{Caption: "Scaling decisions", Head: []string{"after", "policy", "reads", "wanted", "why"}, Text: true}
	for _, d := range r.Decisions {
		why := d.Why
		if !d.Done && !strings.Contains(why, "not written") {
			why += "; not carried out"
		}
		t.Rows = append(t.Rows, []string{d.At.Sub(r.Load.Start).Round(time.Second).String(), d.Policy, strconv.Itoa(d.Count), strconv.Itoa(d.Wanted), why})
	}
	return t
}

// Verdicts returns the results of the check, one line each, worst first.
func Verdicts(c ledger.Check) []string {
	var lines []string
	if c.Problem != "" {
		lines = append(lines, "the check could not be made to its end: "+c.Problem)
	}
	for _, found := range []struct {
		what string
		ledger.Findings
	}{
		{"acknowledged and missing", c.Missing},
		{"there more than once", c.Doubled},
		{"there without having been asked for", c.Unasked},
		{"wrong answers", c.Wrong},
	} {
		if found.Count > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d", found.what, found.Count))
			lines = append(lines, found.First...)
		}
	}
	return lines
}

// acknowledged says in words what was acknowledged, and so must be there.
func acknowledged(c ledger.Check) string {
	var parts []string
	for _, what := range []string{"user", "ride", "join", "write"} {
		parts = append(parts, fmt.Sprintf("%d %ss", c.Acknowledged[what], what))
	}
	return strings.Join(parts, ", ")
}

// slaves returns the highest number of slaves that served at the same time, and the last number.
func (r *Result) slaves() (most, last int) {
	for _, s := range r.Samples {
		if s.Problem == "" {
			most, last = max(most, s.Ready), s.Ready
		}
	}
	return most, last
}
