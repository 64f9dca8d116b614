package ladder

import "testing"

// A machine that is faster in one round than in the others makes no path better than another one.
func TestRatioOf(t *testing.T) {
	for _, c := range []struct {
		name        string
		top, bottom []float64
		want        Ratio
		ok          bool
	}{
		{"machine changes its speed", []float64{100, 50, 400}, []float64{200, 100, 800}, Ratio{0.5, 0.5, 0.5}, true},
		{"range", []float64{80, 60, 70}, []float64{100, 100, 100}, Ratio{0.7, 0.6, 0.8}, true},
		{"not measured", nil, nil, Ratio{}, false},
		{"a round has one of them", []float64{1, 1}, []float64{1}, Ratio{}, false},
		{"nothing answered", []float64{1}, []float64{0}, Ratio{}, false},
	} {
		if got, ok := ratioOf(c.top, c.bottom); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
