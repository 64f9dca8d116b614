package report

import (
	"fmt"
	"html/template"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars is a plot that compares values: a group of bars for each label, in each
// group one bar for each series.
type Bars struct {
	Title, Text string
	Y           string   // name of the axis, with its unit
	Labels      []string // of the groups
	Series      []BarSeries
}

// BarSeries is the bars of one colour, one value for each label.
type BarSeries struct {
	Name   string
	Values []float64
}

func (b *Bars) describe() caption {
	c := caption{Title: b.Title, Text: b.Text}
	for i, s := range b.Series {
		c.Legend = append(c.Legend, key{Name: s.Name, Class: fmt.Sprintf("k%d", i%maxSeries)})
	}
	return c
}

// groupShare is how much of the axis bars cover; the rest is gaps.
const groupShare = 0.7

func (b *Bars) draw(s size) (template.HTML, error) {
	p := newPlot(s, "", b.Y)
	p.Y.Tick.Marker = plain{count: 6}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, lineInk
	p.Add(grid)
	room := s.width - 80 // what the Y axis leaves, about.
	width := room * groupShare / vg.Length(max(1, len(b.Labels)*len(b.Series)))
	width = min(width, 48)
	for i, series := range b.Series {
		if len(series.Values) != len(b.Labels) {
			return "", fmt.Errorf("%s: %d values for %d labels", series.Name, len(series.Values), len(b.Labels))
		}
		if len(series.Values) == 0 {
			continue
		}
		bars, err := plotter.NewBarChart(plotter.Values(series.Values), width)
		if err != nil {
			return "", fmt.Errorf("%s: %w", series.Name, err)
		}
		bars.Color, bars.LineStyle.Width = inks[i%maxSeries], 0
		bars.Offset = width * (vg.Length(i) - vg.Length(len(b.Series)-1)/2)
		p.Add(bars)
	}
	bound(p, false)
	p.X.Min, p.X.Max = -0.5, float64(max(1, len(b.Labels)))-0.5
	p.X.Tick.Marker = groups(b.Labels)
	p.X.Tick.Width, p.X.Padding = 0, 0 // the tick's length stays, as a gap above the label.
	if len(b.Labels) > 0 && room/vg.Length(len(b.Labels)) < narrowLabel {
		style := &p.X.Tick.Label
		p.X.Tick.Length = 8 // a turned label's end would reach into the bars.
		style.Rotation, style.XAlign, style.YAlign = math.Pi/5, draw.XRight, draw.YTop
	}
	return render(p, s, b.Title)
}

// narrowLabel is the width below which labels are rotated, so that they do not overlap.
const narrowLabel = 70

// groups puts the labels under their bars.
type groups []string

// Ticks implements plot.Ticker.
func (g groups) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for i, label := range g {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: label})
	}
	return ticks
}
