package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In every round the writes are measured alone, with an archive, and with streams of changes. The three are compared.
func TestCosts_ArchiveAndStreams_AreMeasured(t *testing.T) {
	for name, flags := range map[string][]string{"Processes": nil, "Embedded": {"--embedded"}} {
		t.Run(name, func(t *testing.T) {
			figures := filepath.Join(t.TempDir(), "figures.json")
			out := run(t, append([]string{"costs", "--clients", "8", "--rounds", "2", "--duration", "300ms", "--json", figures}, flags...)...)
			text, err := os.ReadFile(figures)
			if err != nil {
				t.Fatal(err)
			}
			type ratio struct{ Median, Lowest, Highest float64 }
			var got struct {
				Plain, Archive, Streams []float64
				WithArchive             ratio `json:"with_archive"`
				WithStreams             ratio `json:"with_streams"`
			}
			if err = json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Plain) != 2 || len(got.Archive) != 2 || len(got.Streams) != 2 || got.WithArchive.Lowest <= 0 || got.WithStreams.Lowest <= 0 {
				t.Errorf("got %+v, want two rates of each, and ratios", got)
			}
			if !strings.Contains(out, "with 64 streams of changes") || !strings.Contains(out, "goal 0.95") {
				t.Errorf("got %s, want both ratios and the goal", out)
			}
		})
	}
}
