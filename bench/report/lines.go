package report

import (
	"fmt"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Point is one value of a series. Infinite values and NaN are left out.
type Point struct{ X, Y float64 }

// Series is one line of a plot.
type Series struct {
	Name   string
	Points []Point
	// Step draws values that hold until the next one, such as a count of slaves.
	Step bool
	// Dashed is for a target value, drawn next to the measured one.
	Dashed bool
}

// Mark is a named place on the X axis, drawn as an upright line.
type Mark struct {
	X    float64
	Name string
}

// Lines is a plot of values over time, or over any other increasing quantity.
type Lines struct {
	Title, Text string
	X, Y        string // names of the axes, with units
	Series      []Series
	Marks       []Mark
	// LogY makes the Y axis logarithmic. Values that are not positive are then left out.
	LogY bool
	// Percent makes X the share of requests in percent, spread out towards 100.
	Percent bool
}

func (l *Lines) describe() caption {
	c := caption{Title: l.Title, Text: l.Text}
	for i, s := range l.Series {
		c.Legend = append(c.Legend, key{Name: s.Name, Class: fmt.Sprintf("k%d", i%maxSeries)})
	}
	return c
}

func (l *Lines) draw(s size) (template.HTML, error) {
	p := newPlot(s, l.X, l.Y)
	l.scale(p, s)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, lineInk
	p.Add(grid)
	for i, series := range l.Series {
		line, err := l.line(series, inks[i%maxSeries])
		if err != nil {
			return "", fmt.Errorf("%s: %w", series.Name, err)
		}
		if line != nil {
			p.Add(line)
		}
	}
	bound(p, l.LogY)
	if len(l.Marks) > 0 && !l.LogY {
		p.Y.Max += (p.Y.Max - p.Y.Min) / 8 // room for their names above the lines
	}
	p.Add(marks{marks: l.Marks, text: s.text})
	return render(p, s, l.Title)
}

// scale sets how the axes count.
func (l *Lines) scale(p *plot.Plot, s size) {
	p.Y.Tick.Marker = plain{count: 6}
	p.X.Tick.Marker = plain{count: max(4, int(s.width/100))}
	if l.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	if l.Percent {
		p.X.Tick.Marker = nines{}
	}
}

// line returns what to draw for a series, nil if there is nothing.
func (l *Lines) line(series Series, ink color.Color) (plot.Plotter, error) {
	var points plotter.XYs
	for _, point := range series.Points {
		if l.Percent {
			point.X = -math.Log10(1 - point.X/100)
		}
		if !drawable(point.X) || !drawable(point.Y) || (l.LogY && point.Y <= 0) {
			continue
		}
		points = append(points, plotter.XY(point))
	}
	if len(points) == 0 {
		return nil, nil //nolint:nilnil // nothing to draw is no error.
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = ink, 1.6
	if series.Step {
		line.StepStyle = plotter.PostStep
	}
	if series.Dashed {
		line.Dashes = []vg.Length{4, 3}
	}
	return line, nil
}

func drawable(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// bound gives the axes a drawable range even for few or equal values, and starts the X axis and a linear Y axis at 0.
func bound(p *plot.Plot, logY bool) {
	if math.IsInf(p.X.Min, 0) || math.IsInf(p.Y.Min, 0) {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	}
	p.X.Min = min(0, p.X.Min)
	p.X.Max = max(p.X.Max, p.X.Min+1e-9)
	if logY {
		p.Y.Min = max(p.Y.Min, 1e-9)
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(max(p.Y.Max, p.Y.Min*1.01))))
		return
	}
	p.Y.Min = min(0, p.Y.Min)
	p.Y.Max = max(p.Y.Max*1.05, p.Y.Min+1)
}

// marks draws upright lines with names at their upper ends.
type marks struct {
	marks []Mark
	text  vg.Length
}

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	end := c.Min.X // of the last name: names that would overlap are left out.
	for _, mark := range m.marks {
		at := x(mark.X)
		if at < c.Min.X || at > c.Max.X {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: bandInk, Width: 0.7, Dashes: []vg.Length{2, 2}}, at, c.Min.Y, at, c.Max.Y)
		style := draw.TextStyle{Color: color.Black, Font: face(m.text - 1), Handler: plot.DefaultTextHandler}
		width := style.Width(mark.Name)
		if at < end || at+3+width > c.Max.X {
			continue
		}
		c.FillText(style, vg.Point{X: at + 3, Y: c.Max.Y - m.text}, mark.Name)
		end = at + 6 + width
	}
}
