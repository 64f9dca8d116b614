package console

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"rideshare/bench/report"
)

// openReport shows a report from a file, 1,000 pixels wide, with its charts drawn.
func openReport(t *testing.T, charts ...report.Chart) *page {
	t.Helper()
	dir := t.TempDir()
	p := newPage(t, "file://"+dir)
	file, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	r := report.Page{Title: "A report", Lead: "Charts.", Sections: []report.Section{{Title: "Charts", Charts: charts}}}
	if err = r.Write(file); err != nil {
		t.Fatal(err)
	}
	if err = file.Close(); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(1000, 800), chromedp.Navigate(p.base+"/report.html"))
	p.wait("document.querySelectorAll('figure svg.chart').length === document.querySelectorAll('.card').length" +
		" && [...document.querySelectorAll('figure svg.chart')].every((e) => Number(e.getAttribute('width')) === e.parentElement.clientWidth)")
	return p
}

// holds fails the test unless the expression is true. In it drawn(i) is the chart of that number, w its width, and paths(i) are
// its lines; the area between the axes goes from 54 to right and from 8 down to 270 where nothing else needs room.
func (p *page) holds(expression string) {
	p.Helper()
	const helpers = `(() => {
const drawn = (i) => document.querySelectorAll('svg.chart')[i];
const paths = (i) => [...drawn(i).querySelectorAll('path.series')].map((e) => e.getAttribute('d'));
const texts = (i) => [...drawn(i).querySelectorAll('text')].map((e) => e.textContent);
const w = Number(drawn(0).getAttribute('width')), right = w - 20, middle = ((54 + right) / 2).toFixed(1);
`
	if got := eval[string](p, helpers+"const e = () => "+expression+"; return e() ? '' : JSON.stringify([w, paths(0), texts(0), drawn(0).parentElement.outerHTML]) })()"); got != "" {
		p.Errorf("not so: %s\n%s", expression, got)
	}
}

// A report shows each chart with its names, readable on every screen, from a file that asks for nothing else.
func TestReport_ReadableEverywhere(t *testing.T) {
	var rate, curve []report.Point
	for i := range 120 {
		rate = append(rate, report.Point{X: float64(i), Y: 400 + 300*math.Sin(float64(i)/20)})
		curve = append(curve, report.Point{X: 100 - 100*math.Pow(0.9, float64(i)), Y: float64(1 + i)})
	}
	p := openReport(t,
		report.Chart{
			Title: `"Rate" <now>`, Text: "In each second.", X: "seconds", Y: "requests/s",
			Series: []report.Series{{Name: "answered", Points: rate}, {Name: "due", Points: rate[:60], Dashed: true}},
			Marks:  []report.Mark{{X: 0, Name: "ramp"}, {X: 60, Name: "burst & <more>"}, {X: 61, Name: "overlaps"}, {X: 500, Name: "outside"}},
		},
		report.Chart{Title: "Percentiles", X: "share of requests", Y: "ms", LogY: true, Percent: true, Series: []report.Series{{Name: "join", Points: curve}}},
		report.Chart{
			Title: "Rates", Y: "requests/s", Labels: []string{"point read", "range read", "write <&>"},
			Series: []report.Series{{Name: "in process", Points: []report.Point{{Y: 49000}, {Y: 10300}, {Y: 27600}}}, {Name: "batched", Points: []report.Point{{Y: 36000}, {Y: math.NaN()}, {Y: 15000}}}},
		},
		report.Chart{Title: "Nothing failed"},
	)
	for _, text := range []string{`"Rate" <now>`, "In each second.", "answered", "Percentiles", "in process", "Nothing failed"} {
		p.waitText(text)
	}
	p.holds(`['seconds', 'requests/s', 'ramp', 'burst & <more>', '600'].every((text) => texts(0).includes(text)) && !texts(0).includes('overlaps') && !texts(0).includes('outside')`)
	p.holds(`['90 %', '99 %', '99.9 %', 'ms', '100'].every((text) => texts(1).includes(text))`)
	p.holds(`['point read', 'write <&>', '40k'].every((text) => texts(2).includes(text)) && drawn(2).querySelectorAll('rect').length === 5`)
	p.holds(`[...drawn(2).querySelectorAll('title')].some((e) => e.textContent === 'batched, write <&>: 15,000')`)
	p.holds(`drawn(0).getAttribute('aria-label').startsWith('"Rate" <now>: answered, due') && drawn(0).querySelectorAll('path.dashed').length === 1`)
	p.readable("report")
}

// Lines and bars are where their values are: axes begin at 0, steps hold until the next value, a single value is a dot, equal
// factors are equal steps on a logarithmic axis, and bars stand side by side on the axis.
func TestReport_PlacesFollowTheValues(t *testing.T) {
	p := openReport(t,
		report.Chart{Series: []report.Series{
			{Name: "line", Points: []report.Point{{X: 0, Y: 0}, {X: 5, Y: 50}, {X: 10, Y: 100}}},
			{Name: "step", Points: []report.Point{{X: 0, Y: 100}, {X: 10, Y: 0}}, Step: true},
			{Name: "one", Points: []report.Point{{X: 5, Y: 50}}},
		}},
		report.Chart{LogY: true, Series: []report.Series{{Points: []report.Point{{X: 0, Y: 1}, {X: 1, Y: 10}, {X: 2, Y: 0}, {X: 2, Y: 100}}}}},
		report.Chart{Labels: []string{"a", "b"}, Series: []report.Series{{Points: []report.Point{{Y: 100}, {Y: 50}}}, {Points: []report.Point{{Y: 0}, {Y: 100}}}}},
		report.Chart{Series: []report.Series{{Points: []report.Point{{X: 0, Y: 0}, {X: 100, Y: 58_000}}}}},
		report.Chart{LogX: true, Least: 1, Series: []report.Series{{Points: []report.Point{{X: 1, Y: 0}, {X: 10, Y: 1}, {X: 100, Y: 2}}}}},
		report.Chart{Percent: true, Series: []report.Series{{Points: []report.Point{{X: 0, Y: 0}, {X: 99.95, Y: 0.5}, {X: 100, Y: 0.6}}}}},
	)
	p.holds(`paths(0)[0] === 'M54.0 270.0h.01L' + middle + ' 139.0L' + right + '.0 8.0'`)
	p.holds(`paths(0)[1] === 'M54.0 8.0h.01H' + right + '.0V270.0'`)
	p.holds(`paths(0)[2] === 'M' + middle + ' 139.0h.01'`)
	p.holds(`paths(1)[0] === 'M54.0 270.0h.01L' + middle + ' 139.0L' + right + '.0 8.0'`)
	p.holds(`(() => {
  const half = (right - 54) / 2, at = [54 + half / 2 - 48, 54 + half * 1.5 - 48, 54 + half / 2, 54 + half * 1.5], heights = [262, 131, 0, 262];
  const near = (a, b) => Math.abs(a - b) < 0.1;
  return [...drawn(2).querySelectorAll('rect')].every((e, i) => near(e.getAttribute('x'), at[i]) && near(e.getAttribute('width'), 48) &&
    near(e.getAttribute('height'), heights[i]) && near(Number(e.getAttribute('y')) + heights[i], 270));
})()`)
	p.holds(`['0', '20k', '60k', '40', '100'].every((text) => texts(3).includes(text))`)
	p.holds(`paths(4)[0] === 'M54.0 270.0h.01L' + middle + ' 139.0L' + right + '.0 8.0' && texts(4).join() === '0,1,2,1,10,100'`)
	p.holds(`['0 %', '99.9 %', '0.3'].every((text) => texts(5).includes(text)) && paths(5)[0].split('L').length === 2`)
	eval[bool](p, `document.querySelector('svg.chart').dispatchEvent(new PointerEvent('pointermove', {clientX: document.querySelector('svg.chart').getBoundingClientRect().right}))`)
	p.holds(`[...drawn(0).parentElement.querySelectorAll('.legend b')].map((e) => e.textContent).join() === '100,0,50' && drawn(0).querySelectorAll('.cursor').length === 1`)
}

// Missing values, a single value, equal values and values that are no numbers are drawn as far as possible.
func TestReport_OddData(t *testing.T) {
	var charts []report.Chart
	for _, points := range [][]report.Point{
		nil,
		{{X: 1, Y: 5}},
		{{}, {X: 1}},
		{{X: 3, Y: 3}, {X: 3, Y: 3}},
		{{X: 1, Y: math.NaN()}, {X: math.NaN(), Y: 1}, {X: 2, Y: 1}},
		{{X: 1, Y: math.Inf(1)}},
		{{X: 0, Y: 1e15}, {X: 1, Y: 1e-9}},
	} {
		for _, chart := range []report.Chart{{}, {LogY: true}, {Percent: true}} {
			chart.Series = []report.Series{{Name: "series", Points: points}}
			charts = append(charts, chart)
		}
	}
	p := openReport(t, charts...)
	p.holds(`[...document.querySelectorAll('svg.chart')].every((e) => !/NaN|Infinity|undefined/.test(e.outerHTML) && e.querySelectorAll('.tick').length > 1)`)
}
