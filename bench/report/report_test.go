package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"rideshare/bench/report"
)

// write keeps the page of TestPage, to look at it in a browser.
var write = flag.String("write", "", "file to keep the test's page in")

// example is a page with one of everything.
func example() *report.Page {
	var rate, slaves, p50, p99, curve []report.Point
	for i := range 120 {
		x := float64(i)
		rate = append(rate, report.Point{X: x, Y: 400 + 300*math.Sin(x/20)})
		slaves = append(slaves, report.Point{X: x, Y: float64(1 + i/30)})
		p50 = append(p50, report.Point{X: x, Y: 1 + math.Mod(x, 7)/10})
		p99 = append(p99, report.Point{X: x, Y: 10 + 80*math.Abs(math.Sin(x/9))})
		curve = append(curve, report.Point{X: 100 - 100*math.Pow(0.9, x), Y: 1 + x})
	}
	return &report.Page{
		Title: "Load of <b>rideshare</b>", Lead: "One of everything.",
		Facts: []report.Fact{{Name: "requests", Value: "48,120"}, {Name: "failed", Value: "3", Bad: true}},
		Sections: []report.Section{
			{
				Title: "Over time",
				Charts: []report.Chart{
					{
						Title: "Rate", X: "seconds", Y: "requests/s",
						Series: []report.Series{{Name: "answered", Points: rate}, {Name: "planned", Points: p99, Dashed: true}},
						Marks:  []report.Mark{{X: 0, Name: "ramp"}, {X: 60, Name: "burst & <more>"}, {X: 61, Name: "hidden"}},
					},
					{Title: "Latency", X: "seconds", Y: "ms", LogY: true, Series: []report.Series{{Name: "p50", Points: p50}, {Name: "p99", Points: p99}}},
					{Title: `"Slaves" <now>`, X: "seconds", Y: "slaves", Series: []report.Series{{Name: "slaves", Points: slaves, Step: true}}},
					{Title: "Percentiles", X: "share of requests", Y: "ms", Percent: true, Series: []report.Series{{Name: "join", Points: curve}}},
				},
			},
			{
				Title: "Compared",
				Charts: []report.Chart{{
					Title: "Rates", Y: "requests/s", Labels: []string{"point read", "range read", "write <&>"},
					Series: []report.Series{{Name: "in process", Points: []report.Point{{Y: 49000}, {Y: 10300}, {Y: 27600}}}, {Name: "batched", Points: []report.Point{{Y: 36000}, {Y: 9000}, {Y: 15000}}}},
				}},
				Tables: []report.Table{{Caption: "By kind", Head: []string{"kind", "requests"}, Rows: [][]string{{"<i>join</i>", "12"}}}},
			},
		},
	}
}

func page(t *testing.T, p *report.Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var chartData = regexp.MustCompile(`<script type="application/json">(.*?)</script>`)

// The page holds every part, asks for nothing outside itself, and takes nothing that it is given for markup. tests/console
// looks at the charts in a browser.
func TestPage_SelfContainedAndEscaped(t *testing.T) {
	text := page(t, example())
	if *write != "" {
		if err := os.WriteFile(*write, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Load of &lt;b&gt;rideshare", "48,120", "&lt;i&gt;join", `class="bad"`, "<caption>By kind", "--s1: light-dark(", "function chart("} {
		if !strings.Contains(text, want) {
			t.Errorf("page has no %q", want)
		}
	}
	for _, never := range []string{"src=", "url(", "@import", "import ", "<link", "http://", "https://", "<more>", "<&>"} {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), never) {
			t.Errorf("page has %q", never)
		}
	}
	charts := chartData.FindAllStringSubmatch(text, -1)
	if len(charts) != 5 {
		t.Errorf("got %d charts, want 5", len(charts))
	}
	for _, data := range charts {
		if !json.Valid([]byte(data[1])) {
			t.Errorf("no JSON: %s", data[1])
		}
	}
}

// Points that are no numbers are left out, and a chart without series has none.
func TestPage_OddData(t *testing.T) {
	points := []report.Point{{X: 1, Y: math.NaN()}, {X: math.NaN(), Y: 1}, {X: 2, Y: math.Inf(1)}, {X: 2, Y: 1.5}}
	text := page(t, &report.Page{Sections: []report.Section{{Charts: []report.Chart{{Series: []report.Series{{Name: "one", Points: points}}}, {Title: "none"}}}}})
	charts := chartData.FindAllStringSubmatch(text, -1)
	if len(charts) != 2 || !strings.Contains(charts[0][1], `"points":[null,null,null,[2,1.5]]`) || strings.Contains(charts[1][1], "series") {
		t.Errorf("got %q, want three points left out, and no series", charts)
	}
}

// Values that do not fit the labels are an error, not a wrong drawing.
func TestBars_ValuesMissing_IsAnError(t *testing.T) {
	bars := report.Chart{Labels: []string{"a", "b"}, Series: []report.Series{{Name: "one", Points: []report.Point{{Y: 1}}}}}
	p := &report.Page{Sections: []report.Section{{Charts: []report.Chart{bars}}}}
	if err := p.Write(io.Discard); err == nil {
		t.Error("got no error, want one")
	}
}
