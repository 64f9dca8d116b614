package ladder

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"rideshare/bench/report"
)

// WriteHTML writes the report as a page of its own, with charts.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{Title: "The performance ladder", Lead: r.lead()}
	for _, g := range r.Goals {
		page.Facts = append(page.Facts, report.Fact{Name: g.Name, Value: cmp.Or(g.got(), g.met()), Bad: !g.Met && !g.Unmeasured})
	}
	page.Sections = []report.Section{r.pathSection(), r.rateSection(), r.clientSection(), r.table()}
	return page.Write(w)
}

func (r *Report) lead() string {
	return fmt.Sprintf("%s, %s cores that everything shares, %s, %s. %d rounds of %v, the paths in an order drawn from seed %d; rates are medians. Below are the goals of work/path/other path, red where missed.",
		r.Machine["cpu"], r.Machine["cores"], r.Machine["go"], r.Machine["at"], r.cfg.Rounds, r.cfg.Duration, r.Seed)
}

func (r *Report) pathSection() report.Section {
	t := report.Table{Head: []string{"path", "what it is"}, Text: true}
	for _, p := range paths() {
		t.Rows = append(t.Rows, []string{p.name, p.about})
	}
	goals := report.Table{Caption: "Goals: times the rate of another path, unless the name says otherwise", Head: []string{"goal", "wanted", "got", ""}}
	for _, g := range r.Goals {
		goals.Rows = append(goals.Rows, []string{g.Name, g.wanted(), g.got(), g.met()})
	}
	return report.Section{Title: "Paths and goals", Tables: []report.Table{t, goals}}
}

// rateSection compares the paths of each work at the first number of clients.
func (r *Report) rateSection() report.Section {
	s := report.Section{Title: fmt.Sprintf("Rates with %d clients", r.cfg.Clients[0])}
	for _, work := range workOrder() {
		bars := report.Chart{Title: work, Y: "answers a second", Series: []report.Series{{Name: "median of the rounds"}}}
		for _, row := range r.Rows {
			if closed := closedAt(work, row.Path, r.cfg.Clients[0]); row == r.find(closed) && row.Invalid == "" {
				bars.Labels = append(bars.Labels, row.Path)
				bars.Series[0].Points = append(bars.Series[0].Points, report.Point{Y: row.Rate})
			}
		}
		if len(bars.Labels) > 0 {
			s.Charts = append(s.Charts, bars)
		}
	}
	return s
}

// clientSection shows how rate and latency grow with the clients.
func (r *Report) clientSection() report.Section {
	s := report.Section{Title: "More clients"}
	for _, work := range workOrder() {
		rates := report.Chart{Title: work + ": rate", X: "clients", Y: "answers a second", LogX: true}
		latencies := report.Chart{Title: work + ": latency p99", X: "clients", Y: "ms", LogX: true, LogY: true}
		for _, path := range essential()[work] {
			rate, p99 := report.Series{Name: path}, report.Series{Name: path}
			for _, clients := range slices.Sorted(slices.Values(r.cfg.Clients)) {
				if row := r.find(measurement{Work: work, Path: path, Clients: clients}); row != nil && row.Invalid == "" {
					rate.Points = append(rate.Points, report.Point{X: float64(clients), Y: row.Rate})
					p99.Points = append(p99.Points, report.Point{X: float64(clients), Y: row.P99})
				}
			}
			if len(rate.Points) > 1 {
				rates.Series, latencies.Series = append(rates.Series, rate), append(latencies.Series, p99)
			}
		}
		if len(rates.Series) > 0 {
			s.Charts = append(s.Charts, rates, latencies)
		}
	}
	return s
}

func (r *Report) table() report.Section {
	t := report.Table{
		Head: []string{"work", "path", "clients", "loop", "rate/s", "range", "p50 ms", "p99 ms", "lag", "CPU", "memory", ""},
	}
	for _, row := range r.Rows {
		t.Rows = append(t.Rows, append(row.columns(), row.memoryText(), row.remark()))
	}
	ratios := report.Table{Caption: "Ratios of the rates of one round", Head: []string{"work/path/other path", "median", "range"}}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		ratios.Rows = append(ratios.Rows, []string{name, fmt.Sprintf("%.2f", r.Ratios[name]), r.Ranges[name].rangeText()})
	}
	about := "CPU is microseconds of a core for one answer, memory the largest process of a part in MiB, lag the entries by which the slowest replica was behind, before/after, the largest of all rounds."
	return report.Section{Title: "All figures", Text: about, Tables: []report.Table{t, ratios}}
}

func (row *Row) rangeText() string {
	return fmt.Sprintf("%.0f-%.0f", slices.Min(row.Samples), slices.Max(row.Samples))
}

func (row *Row) memoryText() string { return partsText(row.Resident, "%s %.0f") }
