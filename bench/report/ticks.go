package report

import (
	"math"
	"strconv"
)

// axis places values between two edges of a drawing.
type axis struct {
	from, to  float64 // the places of low and high
	low, high float64
	count     int // of ticks, about
	log       bool
	nines     bool // values count the nines of a share
}

// tick is a named place.
type tick struct {
	At    float64
	Label string
}

// at returns the place of a value.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(max(v, low)), math.Log10(low), math.Log10(high)
	}
	return round(a.from + (a.to-a.from)*(v-low)/(high-low))
}

// round returns a place as exact as a drawing needs it.
func round(v float64) float64 { return math.Round(v*10) / 10 }

func (a axis) ticks() []tick {
	var ticks []tick
	add := func(v float64, label string) { ticks = append(ticks, tick{At: a.at(v), Label: label}) }
	switch {
	case a.nines: // 0, 90, 99, 99.9... percent
		add(0, "0 %")
		for n := 1.0; n <= a.high; n++ {
			add(n, number(100-math.Pow(10, 2-n))+" %")
		}
	case a.log: // powers of ten
		first, last := math.Round(math.Log10(a.low)), math.Round(math.Log10(a.high))
		for power := first; power <= last; power += math.Ceil((last - first) / 10) {
			add(math.Pow(10, power), number(math.Pow(10, power)))
		}
	default: // round values
		step := roundStep((a.high - a.low) / float64(a.count))
		for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
			add(i*step, number(i*step))
		}
	}
	return ticks
}

// decades returns the powers of ten around values; 1 and 10 if there are none.
func decades(lowest, highest float64) (low, high float64) {
	if math.IsInf(lowest, 1) {
		return 1, 10
	}
	low = math.Pow(10, math.Floor(math.Log10(max(lowest, 1e-9))))
	return low, math.Pow(10, math.Ceil(math.Log10(max(highest, low*1.01))))
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
