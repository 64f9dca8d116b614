package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rideshare/internal/telemetry"
)

// A sampled metric shows the number of the moment, and a name is taken once.
func TestRegister_Sampled_ShowsTheNumberOfTheMoment(t *testing.T) {
	reg := telemetry.NewRegistry()
	depth := 3.0
	m := telemetry.Sampled{
		Name: "rideshare_test_depth", Help: "A depth.", Gauge: true, Labels: []string{"lane"},
		Read: func(emit func(float64, ...string)) { emit(depth, "point") },
	}
	if err := telemetry.Register(reg, m); err != nil {
		t.Fatal(err)
	}
	depth = 5
	w := httptest.NewRecorder()
	telemetry.Handler(reg).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if want := `rideshare_test_depth{lane="point"} 5`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("metrics have no line %q", want)
	}
	if err := telemetry.Register(reg, m); err == nil {
		t.Error("the same name was taken twice")
	}
}
