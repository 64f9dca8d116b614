package sqljson_test

import (
	"math"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// JSON numbers read back as the same float, and text as the same text.
func TestAppendValue_FloatsReadBack(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", -1.5: "-1.5", 1e21: "1e+21", 1e-7: "1e-07", 123456789012345680000: "123456789012345680000",
		math.Inf(1): "9e999", math.Inf(-1): "-9e999", math.MaxFloat64: "1.7976931348623157e+308",
	} {
		if got := string(sqljson.AppendValue(nil, new(dbaas.Float(f)), false)); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
	if got := string(sqljson.AppendValue(nil, new(dbaas.Float(math.NaN())), false)); got != "null" {
		t.Errorf("NaN: got %s", got)
	}
}
