package report

import (
	"encoding/json"
	"fmt"
	"math"
)

// Chart shows series as lines over an increasing quantity or, if it has labels, as groups of bars. Its form in JSON is that of
// the options of internal/charts.
type Chart struct {
	Title string `json:"title"`
	Text  string `json:"note"`
	// X and Y name the axes, with units.
	X string `json:"xName"`
	Y string `json:"yName"`
	// Labels name the groups of bars. Each series then has one point for each label, of which only Y counts.
	Labels []string `json:"labels,omitempty"`
	Series []Series `json:"series,omitempty"`
	Marks  []Mark   `json:"marks,omitempty"`
	// LogY makes the Y axis logarithmic. Values that are not positive are then left out.
	LogY bool `json:"log"`
	// LogX makes the X axis logarithmic, with a tick at each value.
	LogX bool `json:"logX,omitempty"`
	// Least is the smallest step between ticks of the Y axis: 1 for what is counted.
	Least float64 `json:"least,omitempty"`
	// Percent makes X the share of requests in percent, spread out towards 100.
	Percent bool `json:"nines"`
}

// Point is one value of a series. Infinite values and NaN are left out.
type Point struct{ X, Y float64 }

// MarshalJSON returns a pair, or null for a point that is left out.
func (p Point) MarshalJSON() ([]byte, error) {
	if !finite(p.X) || !finite(p.Y) {
		return []byte("null"), nil
	}
	return json.Marshal([2]float64{p.X, p.Y})
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Series is the values of one colour.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	// Step draws values that hold until the next one, such as a count of slaves.
	Step bool `json:"step,omitempty"`
	// Dashed is for a target value, drawn next to the measured one.
	Dashed bool `json:"dashed,omitempty"`
}

// Mark is a named place on the X axis, drawn as an upright line.
type Mark struct {
	X    float64 `json:"x"`
	Name string  `json:"name"`
}

func (c *Chart) check() error {
	for _, s := range c.Series {
		if c.Labels != nil && len(s.Points) != len(c.Labels) {
			return fmt.Errorf("%s: %d values for %d labels", s.Name, len(s.Points), len(c.Labels))
		}
	}
	return nil
}
