package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Sampled is a metric whose numbers are read when somebody asks, so that
// counting costs the hot path nothing more than it costs already.
type Sampled struct {
	Name, Help string
	// Gauge metrics go up and down; the others only up.
	Gauge  bool
	Labels []string
	// Read calls emit for each series, with as many label values as there are Labels.
	// It is called by several goroutines at once.
	Read func(emit func(value float64, labels ...string))
}

// Register adds the metrics to reg. A name that is taken is an error.
func Register(reg *Registry, metrics ...Sampled) error {
	for _, m := range metrics {
		kind := prometheus.CounterValue
		if m.Gauge {
			kind = prometheus.GaugeValue
		}
		c := &sampled{read: m.Read, kind: kind, desc: prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)}
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metric %s: %w", m.Name, err)
		}
	}
	return nil
}

// sampled is a Sampled as Prometheus wants it.
type sampled struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(emit func(value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (s *sampled) Describe(descs chan<- *prometheus.Desc) { descs <- s.desc }

// Collect implements prometheus.Collector.
func (s *sampled) Collect(metrics chan<- prometheus.Metric) {
	s.read(func(value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	})
}
