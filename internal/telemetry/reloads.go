package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// NewReloads registers rideshare_reloads_total{files,result} and returns the function that counts one reload, by the
// kind of the files and whether they were applied. All kinds begin at zero, so that the first increase is visible.
func NewReloads(reg prometheus.Registerer, kinds ...string) (observe func(files string, err error), err error) {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rideshare_reloads_total", Help: "Changed files that were read while the part runs, by result: ok, or failed for files that changed nothing.",
	}, []string{"files", "result"})
	for _, kind := range kinds {
		total.WithLabelValues(kind, "ok")
		total.WithLabelValues(kind, "failed")
	}
	if err = reg.Register(total); err != nil {
		return nil, fmt.Errorf("register reload metrics: %w", err)
	}
	return func(files string, err error) {
		result := "ok"
		if err != nil {
			result = "failed"
		}
		total.WithLabelValues(files, result).Inc()
	}, nil
}
