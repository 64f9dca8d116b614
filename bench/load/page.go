package load

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/bench/report"
)

// HTML writes the result as one HTML file.
func (r *Result) HTML(w io.Writer) error {
	page := &report.Page{
		Title: "rideshare under load",
		Lead: fmt.Sprintf("%s, %s: %s. Mix: %s. Run %s, seed %d.", r.Load.Start.Format("2006-01-02 15:04:05 MST"),
			r.loop(), planText(r.Load.Plan), r.mixText(), r.Run, r.Seed),
		Facts: r.facts(),
		Sections: []report.Section{
			{Title: "Over time", Charts: []report.Chart{r.rates(), r.latencies()}},
			{Title: "Slaves", Charts: []report.Chart{r.slavesChart(), r.lag()}},
			{Title: "Latency", Charts: []report.Chart{r.curves(), r.bars()}},
			{Title: "Figures", Text: "Latencies include failed requests. In an open loop they count from the time at which a request was due, so a system that stands still shows in all requests of that time.", Tables: r.tables()},
			r.checkSection(),
		},
	}
	if r.Load.All.Failed > 0 {
		page.Sections[0].Charts = slices.Insert(page.Sections[0].Charts, 1, r.failed())
	}
	if len(r.Decisions) > 0 {
		page.Sections[1].Tables = []report.Table{r.scaling()}
	}
	return page.Write(w)
}

// Sections returns the charts and tables of figures, for a page about another load. marks are drawn beside the phases.
func Sections(s loadgen.Summary, marks ...report.Mark) []report.Section {
	r := &Result{Load: s}
	over := []report.Chart{r.rates(), r.failed(), r.latencies()}
	for i := range over {
		over[i].Marks = append(over[i].Marks, marks...)
	}
	return []report.Section{
		{Title: "Over time", Charts: over},
		{Title: "Latency", Charts: []report.Chart{r.curves(), r.bars()}},
		{Title: "Figures", Tables: r.tables()},
	}
}

func (r *Result) loop() string {
	if r.Load.Loop == loadgen.Closed {
		return "closed loop, levels in clients"
	}
	return "open loop, levels in requests a second"
}

func planText(plan loadgen.Plan) string {
	var parts []string
	for _, p := range plan {
		level := fmt.Sprintf("%g", p.To)
		if p.From != p.To {
			level = fmt.Sprintf("%g-%g", p.From, p.To)
		}
		parts = append(parts, fmt.Sprintf("%s %v %s", p.Name, p.Duration, level))
	}
	return strings.Join(parts, "; ")
}

func (r *Result) mixText() string {
	var parts []string
	for _, kind := range kinds {
		if r.Mix[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d %%", kind, r.Mix[kind]))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Result) facts() []report.Fact {
	all := r.Load.All
	most, _ := r.slaves()
	check := report.Fact{Name: "check", Value: "ok"}
	if !r.Check.OK {
		check = report.Fact{Name: "check", Value: "FAILED", Bad: true}
	}
	return []report.Fact{
		check,
		{Name: "requests", Value: fmt.Sprint(all.Count)},
		{Name: "failed", Value: fmt.Sprint(all.Failed), Bad: all.Failed > 0},
		{Name: "due, not sent", Value: fmt.Sprint(r.Load.Unsent), Bad: r.Load.Unsent > 0},
		{Name: "rate", Value: fmt.Sprintf("%.0f/s", all.Rate())},
		{Name: "p50", Value: latency(all.P50)},
		{Name: "p99", Value: latency(all.P99)},
		{Name: "most slaves", Value: fmt.Sprint(most)},
	}
}

// maxPoints is how many points a line has at most, so that it stays readable.
const maxPoints = 200

// groups returns the whole seconds of the run, in groups so large that there are at most maxPoints. A partial second at
// the end is left out: it would look like a change of the rate.
func (r *Result) groups() [][]loadgen.Second {
	whole := slices.DeleteFunc(slices.Clone(r.Load.Seconds), func(s loadgen.Second) bool { return s.Took < time.Second })
	return slices.Collect(slices.Chunk(whole, r.groupSize()))
}

// groupSize is how many seconds one point covers.
func (r *Result) groupSize() int { return max(1, (len(r.Load.Seconds)+maxPoints-1)/maxPoints) }

// mean returns a line of the groups' means.
func (r *Result) mean(name string, value func(loadgen.Second) float64) report.Series {
	return r.series(name, func(group []loadgen.Second) float64 {
		sum := 0.0
		for _, second := range group {
			sum += value(second)
		}
		return sum / float64(len(group))
	})
}

// highest returns a line of the groups' highest latencies.
func (r *Result) highest(name string, value func(loadgen.Second) time.Duration) report.Series {
	return r.series(name, func(group []loadgen.Second) float64 {
		most := time.Duration(0)
		for _, second := range group {
			most = max(most, value(second))
		}
		return milliseconds(most)
	})
}

func (r *Result) series(name string, value func([]loadgen.Second) float64) report.Series {
	s := report.Series{Name: name}
	for _, group := range r.groups() {
		s.Points = append(s.Points, report.Point{X: group[0].At.Seconds(), Y: value(group)})
	}
	return s
}

// each returns "each second", or for example "each 3 seconds".
func (r *Result) each() string {
	if n := r.groupSize(); n > 1 {
		return fmt.Sprintf("each %d seconds", n)
	}
	return "each second"
}

// phases marks the beginnings of phases.
func (r *Result) phases() []report.Mark {
	var marks []report.Mark
	at := time.Duration(0)
	for _, p := range r.Load.Plan {
		if at < r.Load.All.Took {
			marks = append(marks, report.Mark{X: at.Seconds(), Name: p.Name})
		}
		at += p.Duration
	}
	return marks
}

const axisTime = "seconds since the start"

func (r *Result) rates() report.Chart {
	lines := report.Chart{
		Title: "Rate", Text: "Answers a second, in " + r.each() + "; the vertical lines are the phases.", X: axisTime, Y: "requests/s", Marks: r.phases(),
		Series: []report.Series{r.mean("answered", loadgen.Second.Rate)},
	}
	if r.Load.Loop == loadgen.Open {
		due := r.mean("due", func(s loadgen.Second) float64 { return s.Level })
		due.Dashed = true
		lines.Series = append(lines.Series, due)
	}
	return lines
}

// failed returns a chart of the failures.
func (r *Result) failed() report.Chart {
	lines := report.Chart{Title: "Failed requests", X: axisTime, Y: "failed/s", Marks: r.phases()}
	for _, kind := range r.Load.Kinds {
		if kind.Failed > 0 {
			lines.Series = append(lines.Series, r.mean(kind.Name, func(s loadgen.Second) float64 { return float64(s.Kinds[kind.Name].Failed) }))
		}
	}
	return lines
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r *Result) latencies() report.Chart {
	return report.Chart{
		Title: "Latency over time", Text: "Percentiles of single seconds, the highest in " + r.each() + ".", X: axisTime, Y: "milliseconds", LogY: true, Marks: r.phases(),
		Series: []report.Series{
			r.highest("p50", func(s loadgen.Second) time.Duration { return s.All.P50 }),
			r.highest("p90", func(s loadgen.Second) time.Duration { return s.All.P90 }),
			r.highest("p99", func(s loadgen.Second) time.Duration { return s.All.P99 }),
		},
	}
}

// sampled returns one value for each sample in which the cluster answered.
func (r *Result) sampled(name string, value func(Sample) float64) report.Series {
	series := report.Series{Name: name, Step: true}
	for _, s := range r.Samples {
		if s.Problem == "" {
			series.Points = append(series.Points, report.Point{X: s.At.Seconds(), Y: value(s)})
		}
	}
	return series
}

func (r *Result) slavesChart() report.Chart {
	lines := report.Chart{
		Title: "Slaves", Text: "The vertical lines are the scaling decisions, with the number of slaves that each wanted.", X: axisTime, Y: "slaves", Least: 1,
		Series: []report.Series{
			r.sampled("serving", func(s Sample) float64 { return float64(s.Ready) }),
			r.sampled("wanted", func(s Sample) float64 { return float64(s.Desired) }),
		},
	}
	lines.Series[1].Dashed = true
	for _, d := range r.Decisions {
		lines.Marks = append(lines.Marks, report.Mark{X: d.At.Sub(r.Load.Start).Seconds(), Name: fmt.Sprint(d.Wanted)})
	}
	return lines
}

func (r *Result) lag() report.Chart {
	return report.Chart{
		Title: "Replica lag", Text: "Log entries that the slave furthest behind had still to apply.", X: axisTime, Y: "entries", Least: 1, Marks: r.phases(),
		Series: []report.Series{r.sampled("lag", func(s Sample) float64 { return float64(s.Lag) })},
	}
}

func (r *Result) curves() report.Chart {
	lines := report.Chart{
		Title: "Latency distribution", Text: "The share of requests that was answered within a time; each step to the right is ten times rarer.",
		X: "share of requests", Y: "milliseconds", LogY: true, Percent: true,
	}
	for _, kind := range r.Load.Kinds {
		series := report.Series{Name: kind.Name}
		for _, q := range r.Load.Distribution[kind.Name] {
			series.Points = append(series.Points, report.Point{X: q.Percent, Y: milliseconds(q.Latency)})
		}
		lines.Series = append(lines.Series, series)
	}
	return lines
}

func (r *Result) bars() report.Chart {
	bars := report.Chart{Title: "Latency by kind", Y: "milliseconds", Series: []report.Series{{Name: "p50"}, {Name: "p90"}, {Name: "p99"}}}
	for _, kind := range r.Load.Kinds {
		bars.Labels = append(bars.Labels, kind.Name)
		for i, value := range []time.Duration{kind.P50, kind.P90, kind.P99} {
			bars.Series[i].Points = append(bars.Series[i].Points, report.Point{Y: milliseconds(value)})
		}
	}
	return bars
}

func (r *Result) checkSection() report.Section {
	c := r.Check
	s := report.Section{Title: "Check", Text: "At the end everything that was acknowledged was read back: " + acknowledged(c) + "."}
	if n := c.UnknownThere + c.UnknownMissing; n > 0 {
		s.Text += fmt.Sprintf(" %d writes had no answer: %d are there, %d are not.", n, c.UnknownThere, c.UnknownMissing)
	}
	if c.OK {
		s.Text += " All of it is there, once, and every answer was as it must be."
		return s
	}
	found := report.Table{Head: []string{"found"}, Text: true}
	for _, line := range Verdicts(c) {
		found.Rows = append(found.Rows, []string{line})
	}
	s.Tables = []report.Table{found}
	return s
}
