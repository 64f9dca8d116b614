package telemetry

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Waits counts how long operations waited before they were admitted or refused. It is safe for concurrent use.
type Waits struct{ seconds *prometheus.HistogramVec }

// NewWaits registers rideshare_admission_wait_seconds{stage}.
func NewWaits(reg prometheus.Registerer) (*Waits, error) {
	w := &Waits{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rideshare_admission_wait_seconds", Buckets: buckets,
		Help: "Time that operations waited for the event-count breaker (stage event) or for the write queue to be shorter (stage depth), of those that had to wait.",
	}, []string{"stage"})}
	if err := reg.Register(w.seconds); err != nil {
		return nil, fmt.Errorf("register metric of waits: %w", err)
	}
	for _, stage := range []string{"event", "depth"} {
		w.seconds.WithLabelValues(stage) // shown before the first wait
	}
	return w, nil
}

// Observe counts one wait at a stage.
func (w *Waits) Observe(stage string, took time.Duration) {
	w.seconds.WithLabelValues(stage).Observe(took.Seconds())
}
