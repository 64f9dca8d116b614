package strictjson_test

import (
	"testing"

	"rideshare/internal/strictjson"
)

// BenchmarkUnmarshal decodes the body that creates a ride.
func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(`{"created_by":"ann","timestamp":"12-10-2030:10-20-30","source":22,"destination":37}`)
	b.ReportAllocs()
	for b.Loop() {
		var ride struct {
			CreatedBy   string `json:"created_by"`
			Timestamp   string `json:"timestamp"`
			Source      int64  `json:"source"`
			Destination int64  `json:"destination"`
			Seats       *int64 `json:"seats,omitempty"`
		}
		if err := strictjson.Unmarshal(body, &ride); err != nil {
			b.Fatal(err)
		}
	}
}
