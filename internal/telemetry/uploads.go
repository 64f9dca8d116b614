package telemetry

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Uploads counts the objects that persdb stores in its archive. It is safe for concurrent use.
type Uploads struct {
	total   *prometheus.CounterVec
	seconds prometheus.Histogram
}

// NewUploads registers rideshare_archive_uploads_total{kind,result} and rideshare_archive_upload_seconds.
func NewUploads(reg prometheus.Registerer, kinds []string) (*Uploads, error) {
	u := &Uploads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rideshare_archive_uploads_total", Help: "Objects that were to be stored in the archive, by kind and by result: ok or error.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rideshare_archive_upload_seconds", Help: "Time of one attempt to store an object in the archive.", Buckets: buckets,
		}),
	}
	for _, kind := range kinds {
		u.total.WithLabelValues(kind, "ok")
		u.total.WithLabelValues(kind, "error")
	}
	for _, m := range []prometheus.Collector{u.total, u.seconds} {
		if err := reg.Register(m); err != nil {
			return nil, fmt.Errorf("register archive metrics: %w", err)
		}
	}
	return u, nil
}

// Observe counts one attempt.
func (u *Uploads) Observe(kind string, err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	u.total.WithLabelValues(kind, result).Inc()
	u.seconds.Observe(took.Seconds())
}
