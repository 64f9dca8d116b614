package scene

import (
	"fmt"
	"io"
	"strings"

	"rideshare/bench/load"
	"rideshare/bench/report"
)

// verdict is the result in lines, what is wrong first.
func (r *Result) verdict() []string {
	lines := load.Verdicts(r.Check)
	if r.Check.OK {
		lines = append(lines, "ok: everything acknowledged is there, once")
	}
	if r.Ended {
		lines = append(lines, "ended early; what was written by then is checked")
	}
	if n := r.Check.UnknownThere + r.Check.UnknownMissing; n > 0 {
		lines = append(lines, fmt.Sprintf("unknown: %d writes without an answer: %d are there, %d are not", n, r.Check.UnknownThere, r.Check.UnknownMissing))
	}
	for what, n := range r.Check.Acknowledged {
		lines = append(lines, fmt.Sprintf("acknowledged: %d %ss", n, what))
	}
	for _, e := range r.Events {
		lines = append(lines, fmt.Sprintf("%s: the %s was killed after %.1f s", e.Load, e.What, e.At.Seconds()))
	}
	return append(lines, r.Notes...)
}

// print writes the result for a terminal.
func (r *Result) print(w io.Writer) error {
	var b strings.Builder
	for _, l := range r.Loads {
		all := l.Sum.All
		fmt.Fprintf(&b, "%s: %d requests, %.0f/s, %d failed %v, p50 %v, p99 %v, longest %v\n", l.Name, all.Count, all.Rate(), all.Failed, all.Failures, all.P50, all.P99, all.Max)
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(r.verdict(), "\n"))
	_, err := io.WriteString(w, b.String())
	return err
}

// page writes the result as an HTML page, the verdict first.
func (r *Result) page(w io.Writer) error {
	page := &report.Page{Title: r.Scene, Lead: fmt.Sprintf("Scale %g.", r.Scale), Facts: []report.Fact{{Name: "check", Value: "ok"}}}
	if !r.Check.OK {
		page.Facts[0] = report.Fact{Name: "check", Value: "FAILED", Bad: true}
	}
	verdict := report.Table{Head: []string{"verdict"}, Text: true}
	for _, line := range r.verdict() {
		verdict.Rows = append(verdict.Rows, []string{line})
	}
	page.Sections = []report.Section{{Title: "Verdict", Tables: []report.Table{verdict}}}
	for _, l := range r.Loads {
		page.Facts = append(page.Facts, report.Fact{Name: l.Name, Value: fmt.Sprintf("%.0f/s", l.Sum.All.Rate())})
		var marks []report.Mark
		for _, e := range r.Events {
			if e.Load == l.Name {
				marks = append(marks, report.Mark{X: e.At.Seconds(), Name: e.What + " killed"})
			}
		}
		for _, section := range load.Sections(l.Sum, marks...) {
			section.Title = l.Name + ": " + strings.ToLower(section.Title)
			page.Sections = append(page.Sections, section)
		}
	}
	return page.Write(w)
}
