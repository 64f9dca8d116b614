package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// plain puts about count round values on an axis.
type plain struct{ count int }

// Ticks implements plot.Ticker.
func (t plain) Ticks(low, high float64) []plot.Tick {
	step := roundStep((high - low) / float64(t.count))
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return ticks
}

// roundStep returns the next of 1, 2 and 5 times a power of ten.
func roundStep(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, factor := range []float64{1, 2, 5} {
		if step <= factor*power*1.0000001 {
			return factor * power
		}
	}
	return 10 * power
}

// decades puts the powers of ten on an axis.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, power), Label: number(math.Pow(10, power))})
	}
	return ticks
}

// nines puts 0, 90, 99, 99.9... percent on an axis that counts the nines.
type nines struct{}

// Ticks implements plot.Ticker.
func (nines) Ticks(_, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0 %"}}
	for n := 1.0; n <= high; n++ {
		ticks = append(ticks, plot.Tick{Value: n, Label: number(100-math.Pow(10, 2-n)) + " %"})
	}
	return ticks
}

// number formats a value for readers: no exponent, no rounding noise of binary fractions.
func number(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
	if err != nil { // Inf and NaN: nothing that a tick is at.
		return ""
	}
	if rounded >= 10_000 && math.Mod(rounded, 1000) == 0 {
		return strconv.FormatFloat(rounded/1000, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
