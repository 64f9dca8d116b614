package ladder

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/bench/report"
)

// ScaleReport is the result of Scale.
type ScaleReport struct {
	Machine map[string]string `json:"machine"`
	// Share is the part of a core of each slave. Turns is the work of a read, which takes SQLite about a millisecond.
	Share   float64     `json:"share_cores"`
	Turns   int         `json:"turns"`
	Clients int         `json:"clients_per_slave"`
	Steps   []ScaleStep `json:"steps"`
	Auto    *ScaleAuto  `json:"autoscaler,omitempty"`
}

// ScaleStep has the figures with one number of slaves. Rate counts reads answered 200, a second; Ratio is Rate divided by
// that of the first step.
type ScaleStep struct {
	Slaves int     `json:"slaves"`
	Rate   float64 `json:"rate"`
	Ratio  float64 `json:"ratio"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Failed int64   `json:"failed"`
}

// ScaleAuto is how the autoscaler reacted to a load. Low and High are reads a second.
type ScaleAuto struct {
	Policy        string        `json:"policy"`
	Period        time.Duration `json:"period_ns"`
	ReadsPerSlave int           `json:"reads_per_slave"`
	Low           float64       `json:"low"`
	High          float64       `json:"high"`
	Seconds       []ScaleSecond `json:"seconds"`
}

// ScaleSecond is one second of the load. Latencies count from when a read was due.
type ScaleSecond struct {
	At      float64 `json:"at_s"`
	Offered float64 `json:"offered"`
	Rate    float64 `json:"rate"`
	P99     float64 `json:"p99_ms"`
	Failed  int64   `json:"failed"`
	Slaves  int     `json:"slaves"`
}

// stepOf returns the figures of the second phase: the first one is the warm-up.
func stepOf(slaves int, phases []loadgen.Stretch) ScaleStep {
	of := phases[1]
	return ScaleStep{Slaves: slaves, Rate: of.Rate() * good(of.Figures), P50: milliseconds(of.P50), P99: milliseconds(of.P99), Failed: of.Failed}
}

// good returns the part of the requests that did not fail.
func good(f loadgen.Figures) float64 { return float64(f.Count-f.Failed) / float64(max(1, f.Count)) }

func (r *ScaleReport) add(s ScaleStep) {
	s.Ratio = 1
	if len(r.Steps) > 0 {
		s.Ratio = s.Rate / r.Steps[0].Rate
	}
	r.Steps = append(r.Steps, s)
}

func (a *ScaleAuto) add(s loadgen.Second, slaves int) {
	a.Seconds = append(a.Seconds, ScaleSecond{
		At: s.At.Seconds(), Offered: s.Level, Rate: s.Rate() * good(s.All), P99: milliseconds(s.All.P99), Failed: s.All.Failed, Slaves: slaves,
	})
}

// Print prints the tables.
func (r *ScaleReport) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(out, "slaves of %.2f cores\treads/s\tratio\tp50 ms\tp99 ms\tfailed\t\n", r.Share) // Flush returns the error.
	for _, s := range r.Steps {
		_, _ = fmt.Fprintf(out, "%d\t%.0f\t%.2f\t%.1f\t%.1f\t%d\t\n", s.Slaves, s.Rate, s.Ratio, s.P50, s.P99, s.Failed)
	}
	if a := r.Auto; a != nil {
		_, _ = fmt.Fprintf(out, "\t\t\t\t\t\t\nautoscaler, second\toffered/s\treads/s\tp99 ms\tslaves\tfailed\t\n")
		for _, s := range a.Seconds {
			_, _ = fmt.Fprintf(out, "%.0f\t%.0f\t%.0f\t%.1f\t%d\t%d\t\n", s.At, s.Offered, s.Rate, s.P99, s.Slaves, s.Failed)
		}
	}
	return out.Flush()
}

// WriteHTML writes the report as a page of its own, with charts.
func (r *ScaleReport) WriteHTML(w io.Writer) error {
	page := report.Page{Title: "More slaves", Lead: fmt.Sprintf(
		"%s, %s cores, %s, %s. Each slave may use %.2f of a core. A read takes the engine about a millisecond of a core. %d clients for each slave.",
		r.Machine["cpu"], r.Machine["cores"], r.Machine["go"], r.Machine["at"], r.Share, r.Clients)}
	rates := report.Chart{Title: "Rate by slaves", X: "slaves", Y: "reads a second", Series: []report.Series{{Name: "measured"}, {Name: "the first rate times slaves", Dashed: true}}}
	table := report.Table{Head: []string{"slaves", "reads/s", "ratio", "p50 ms", "p99 ms", "failed"}}
	for _, s := range r.Steps {
		first := r.Steps[0]
		rates.Series[0].Points = append(rates.Series[0].Points, report.Point{X: float64(s.Slaves), Y: s.Rate})
		rates.Series[1].Points = append(rates.Series[1].Points, report.Point{X: float64(s.Slaves), Y: first.Rate / float64(first.Slaves) * float64(s.Slaves)})
		table.Rows = append(table.Rows, []string{
			strconv.Itoa(s.Slaves), fmt.Sprintf("%.0f", s.Rate), fmt.Sprintf("%.2f", s.Ratio), fmt.Sprintf("%.1f", s.P50), fmt.Sprintf("%.1f", s.P99), strconv.FormatInt(s.Failed, 10),
		})
	}
	page.Sections = []report.Section{{Title: "A fixed number of slaves", Charts: []report.Chart{rates}, Tables: []report.Table{table}}}
	if r.Auto != nil {
		page.Sections = append(page.Sections, r.Auto.section())
	}
	return page.Write(w)
}

func (a *ScaleAuto) section() report.Section {
	load := report.Chart{Title: "Load", X: "seconds", Y: "reads a second", Series: []report.Series{{Name: "offered", Dashed: true, Step: true}, {Name: "answered"}}}
	slaves := report.Chart{Title: "Slaves that serve", X: "seconds", Y: "slaves", Series: []report.Series{{Name: "slaves", Step: true}}}
	latency := report.Chart{Title: "Latency p99", X: "seconds", Y: "ms", LogY: true, Series: []report.Series{{Name: "p99"}}}
	for _, s := range a.Seconds {
		for series, y := range map[*report.Series]float64{&load.Series[0]: s.Offered, &load.Series[1]: s.Rate, &slaves.Series[0]: float64(s.Slaves), &latency.Series[0]: s.P99} {
			series.Points = append(series.Points, report.Point{X: s.At, Y: y})
		}
	}
	return report.Section{
		Title:  "Under the autoscaler",
		Text:   fmt.Sprintf("Policy %s, a decision every %v, %d reads for each slave.", a.Policy, a.Period, a.ReadsPerSlave),
		Charts: []report.Chart{load, slaves, latency},
	}
}
