package report

import (
	"fmt"
	"math"
	"strings"
)

// Chart shows series as lines over an increasing quantity or, if it has labels, as groups of bars.
type Chart struct {
	Title, Text string
	X, Y        string // names of the axes, with units
	// Labels name the groups of bars. Each series then has one point for each label, of which only Y counts.
	Labels []string
	Series []Series
	Marks  []Mark
	// LogY makes the Y axis logarithmic. Values that are not positive are then left out.
	LogY bool
	// Percent makes X the share of requests in percent, spread out towards 100.
	Percent bool
}

// Point is one value of a series. Infinite values and NaN are left out.
type Point struct{ X, Y float64 }

// Series is the values of one colour.
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

// The size of a drawing, in the units of its SVG, and the edges of the area between the axes.
const (
	width, height            = 880.0, 290.0
	left, right, top, bottom = 70.0, width - 20, 14.0, height - 52
	// maxSeries is how many series of one chart have distinct colours.
	maxSeries = 8
	// letter is about the width of a letter.
	letter = 6.5
)

func (c *Chart) check() error {
	for _, s := range c.Series {
		if c.Labels != nil && len(s.Points) != len(c.Labels) {
			return fmt.Errorf("%s: %d values for %d labels", s.Name, len(s.Points), len(c.Labels))
		}
	}
	return nil
}

// Drawing is a chart with the places of its parts, for the template.
type Drawing struct {
	Width, Height, Left, Right, Top, Bottom float64

	MiddleX, MiddleY float64
	// Turned means that the labels are too long to stand beside each other.
	Turned         bool
	XTicks, YTicks []tick
	Lines          []line
	Bars           []bar
	Marks          []tick
}

type line struct {
	Class, Points string
	Dashed        bool
}

type bar struct {
	Class               string
	X, Y, Width, Height float64
	Name                string
}

// Class returns the style of a series: its colour and, in print, its dashes.
func (*Chart) Class(series int) string { return fmt.Sprintf("k%d", series%maxSeries) }

// Draw places the parts of the chart.
func (c Chart) Draw() Drawing {
	series := c.drawable()
	x, y := c.axes(series)
	d := Drawing{
		Width: width, Height: height, Left: left, Right: right, Top: top, Bottom: bottom, MiddleX: (left + right) / 2, MiddleY: (top + bottom) / 2,
		YTicks: y.ticks(), Marks: marks(c.Marks, x),
	}
	if c.Labels != nil {
		c.drawBars(&d, y)
		return d
	}
	d.XTicks = x.ticks()
	for i, s := range series {
		if text := points(s, x, y); text != "" {
			d.Lines = append(d.Lines, line{Class: c.Class(i), Points: text, Dashed: s.Dashed})
		}
	}
	return d
}

// drawable returns the series with the points that have a place.
func (c *Chart) drawable() []Series {
	series := make([]Series, len(c.Series))
	for i, s := range c.Series {
		series[i] = s
		series[i].Points = nil
		for j, p := range s.Points {
			switch {
			case c.Labels != nil:
				p.X = float64(j)
			case c.Percent:
				p.X = -math.Log10(1 - p.X/100)
			}
			if finite(p.X) && finite(p.Y) && (!c.LogY || p.Y > 0) {
				series[i].Points = append(series[i].Points, p)
			}
		}
	}
	return series
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// axes returns axes that hold all points: from 0 or, if logarithmic, from one power of ten to another.
func (c *Chart) axes(series []Series) (x, y axis) {
	x, y = axis{from: left, to: right, count: 8, nines: c.Percent}, axis{from: bottom, to: top, count: 6, log: c.LogY}
	lowest := math.Inf(1)
	for _, s := range series {
		for _, p := range s.Points {
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			y.low, y.high = min(y.low, p.Y), max(y.high, p.Y)
			lowest = min(lowest, p.Y)
		}
	}
	if x.high == x.low {
		x.high++
	}
	if c.LogY {
		y.low, y.high = decades(lowest, y.high)
		return x, y
	}
	y.high = max(y.high*1.05, y.low+1)
	if len(c.Marks) > 0 {
		y.high += (y.high - y.low) / 8 // room for their names above the lines
	}
	return x, y
}

// points returns the places of a line in the form of SVG.
func points(s Series, x, y axis) string {
	var text strings.Builder
	add := func(p Point) { fmt.Fprintf(&text, "%.1f,%.1f ", x.at(p.X), y.at(p.Y)) }
	for i, p := range s.Points {
		if s.Step && i > 0 {
			add(Point{p.X, s.Points[i-1].Y})
		}
		add(p)
	}
	if len(s.Points) == 1 {
		add(s.Points[0]) // a line without length is drawn as a dot
	}
	return strings.TrimSpace(text.String())
}

// drawBars places a group of bars over each label.
func (c *Chart) drawBars(d *Drawing, y axis) {
	const share, widest = 0.7, 48 // of a group's room that its bars cover; width of a bar
	room := (right - left) / float64(max(1, len(c.Labels)))
	each := min(room*share/float64(max(1, len(c.Series))), widest)
	for i, label := range c.Labels {
		middle := left + room*(float64(i)+0.5)
		d.XTicks = append(d.XTicks, tick{At: round(middle), Label: label})
		d.Turned = d.Turned || float64(len(label))*letter > room
		for j, s := range c.Series {
			value := s.Points[i].Y
			if !finite(value) {
				continue
			}
			at := y.at(value)
			d.Bars = append(d.Bars, bar{
				Class: c.Class(j), X: round(middle + each*(float64(j)-float64(len(c.Series))/2)), Y: at, Width: round(each), Height: round(bottom - at),
				Name: s.Name + ", " + label + ": " + number(round(value)),
			})
		}
	}
}

// marks places upright lines. A name that would overlap the one before it is left out.
func marks(all []Mark, x axis) []tick {
	var placed []tick
	end := left
	for _, m := range all {
		at := x.at(m.X)
		if m.X < x.low || m.X > x.high {
			continue
		}
		last := at + 6 + float64(len(m.Name))*letter
		if at < end || last > right {
			m.Name = ""
		} else {
			end = last
		}
		placed = append(placed, tick{At: at, Label: m.Name})
	}
	return placed
}
