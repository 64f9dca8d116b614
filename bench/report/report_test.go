package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
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

var drawing = regexp.MustCompile(`(?s)<svg class="chart".*?</svg>`)

// The page holds every part, asks for nothing outside itself, and takes nothing that
// it is given for markup.
func TestPage_SelfContainedAndEscaped(t *testing.T) {
	text := page(t, example())
	if *write != "" {
		if err := os.WriteFile(*write, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Load of &lt;b&gt;rideshare", "48,120", "&lt;i&gt;join", "burst &amp; &lt;more&gt;", "write &lt;&amp;&gt;", `class="bad"`, "<caption>By kind"} {
		if !strings.Contains(text, want) {
			t.Errorf("page has no %q", want)
		}
	}
	for _, never := range []string{"<script", "src=", "url(", "@import", "<link", "http://", "https://", "hidden"} {
		if strings.Contains(text, never) {
			t.Errorf("page has %q", never)
		}
	}
	if got := len(drawing.FindAllString(text, -1)); got != 5 {
		t.Errorf("got %d drawings, want each of 5 charts", got)
	}
}

// Each drawing is well-formed and uses only colours of the page's style, so that it is readable on light and dark
// screens.
func TestPage_DrawingsFollowTheStyle(t *testing.T) {
	text := page(t, example())
	color := regexp.MustCompile(`#[0-9A-Fa-f]{6}`)
	for _, svg := range drawing.FindAllString(text, -1) {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%.200s: %v", svg, err)
			}
		}
		if fixed := color.FindString(svg); fixed != "" {
			t.Errorf("drawing has the fixed colour %s", fixed)
		}
		if !strings.Contains(svg, ` k0"`) {
			t.Errorf("drawing has no series: %.200s", svg)
		}
	}
}

// Data that is missing, single, equal or no number is drawn as far as it can be.
func TestLines_OddData(t *testing.T) {
	for name, points := range map[string][]report.Point{
		"None": nil, "One": {{X: 1, Y: 5}}, "Zero": {{}, {X: 1}}, "Equal": {{X: 3, Y: 3}, {X: 3, Y: 3}},
		"NaN": {{X: 1, Y: math.NaN()}, {X: math.NaN(), Y: 1}, {X: 2, Y: 1}}, "Infinite": {{X: 1, Y: math.Inf(1)}}, "Huge": {{X: 0, Y: 1e15}, {X: 1, Y: 1e-9}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chart := range []report.Chart{{}, {LogY: true}, {Percent: true}} {
				chart.Series = []report.Series{{Name: "series", Points: points}}
				text := page(t, &report.Page{Sections: []report.Section{{Charts: []report.Chart{chart}}}})
				if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || !strings.Contains(text, "</svg>") {
					t.Errorf("%+v: drawn with what is no number, or not at all", chart)
				}
			}
		})
	}
}

// The axis has round values with names that people read.
func TestLines_Ticks(t *testing.T) {
	text := page(t, &report.Page{Sections: []report.Section{{Charts: []report.Chart{
		{Series: []report.Series{{Name: "rate", Points: []report.Point{{X: 0, Y: 0}, {X: 100, Y: 58_000}}}}},
		{Percent: true, Series: []report.Series{{Name: "curve", Points: []report.Point{{X: 0, Y: 0}, {X: 99.95, Y: 0.5}}}}},
	}}}})
	for _, label := range []string{"20k", "60k", "40", "99 %", "99.9 %", "0.2"} {
		if !strings.Contains(text, ">"+label+"<") {
			t.Errorf("no tick %q", label)
		}
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

// The parts of a drawing are where their values are: the axes begin at 0, steps hold until the next value, bars stand on
// the axis side by side, and nothing is outside the drawing.
func TestChart_Draw_PlacesFollowTheValues(t *testing.T) {
	lines := report.Chart{Series: []report.Series{
		{Name: "line", Points: []report.Point{{X: 0, Y: 0}, {X: 5, Y: 50}, {X: 10, Y: 100}}},
		{Name: "step", Points: []report.Point{{X: 0, Y: 100}, {X: 10, Y: 0}}, Step: true, Dashed: true},
		{Name: "one", Points: []report.Point{{X: 5, Y: 50}}},
	}}
	d := lines.Draw()
	want := []string{"70.0,238.0 465.0,131.3 860.0,24.7", "70.0,24.7 860.0,24.7 860.0,238.0", "465.0,131.3 465.0,131.3"}
	for i, l := range d.Lines {
		if l.Points != want[i] || l.Dashed != (i == 1) {
			t.Errorf("line %d: got %+v, want %s", i, l, want[i])
		}
	}
	logarithmic := report.Chart{LogY: true, Series: []report.Series{{Points: []report.Point{{X: 0, Y: 1}, {X: 1, Y: 10}, {X: 2, Y: 0}, {X: 2, Y: 100}}}}}
	if got := logarithmic.Draw().Lines[0].Points; got != "70.0,238.0 465.0,126.0 860.0,14.0" {
		t.Errorf("logarithmic: got %s, want equal steps for equal factors, and no 0", got)
	}
	bars := report.Chart{Labels: []string{"a", "b"}, Series: []report.Series{{Points: []report.Point{{Y: 100}, {Y: 50}}}, {Points: []report.Point{{Y: 0}, {Y: 100}}}}}
	d = bars.Draw()
	for i, at := range []struct{ x, height float64 }{{219.5, 213.3}, {267.5, 0}, {614.5, 106.7}, {662.5, 213.3}} {
		if got := d.Bars[i]; got.X != at.x || got.Width != 48 || got.Height != at.height || math.Abs(got.Y+got.Height-d.Bottom) > 0.05 {
			t.Errorf("bar %d: got %+v, want x %v and height %v on the axis at %v", i, got, at.x, at.height, d.Bottom)
		}
	}
}
