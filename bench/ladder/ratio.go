package ladder

import (
	"fmt"
	"slices"
)

// Ratio compares two rates round by round: the two measurements of a round are seconds apart, so a machine that is
// faster in one round is faster for both.
type Ratio struct {
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// ratioOf returns the ratio of top to bottom; both list the rounds in the same order. It returns false if a round has
// only one of them.
func ratioOf(top, bottom []float64) (Ratio, bool) {
	if len(top) == 0 || len(top) != len(bottom) || slices.Contains(bottom, 0) {
		return Ratio{}, false
	}
	rounds := make([]float64, len(top))
	for i := range top {
		rounds[i] = top[i] / bottom[i]
	}
	return Ratio{Median: median(rounds), Lowest: slices.Min(rounds), Highest: slices.Max(rounds)}, true
}

func (r Ratio) rangeText() string { return fmt.Sprintf("%.2f-%.2f", r.Lowest, r.Highest) }
