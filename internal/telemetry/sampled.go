package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Sampled is a metric whose values are read only when metrics are requested, so that it adds no cost to the hot path.
type Sampled struct {
	Name, Help string
	// Gauge metrics go up and down; others only go up.
	Gauge  bool
	Labels []string
	// Read calls emit for each series, with as many label values as there are Labels. It must be safe for concurrent
	// calls.
	Read func(emit func(value float64, labels ...string))
}

// Register adds the metrics to reg. A name that is already registered is an error.
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

// sampled adapts a Sampled to Prometheus.
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
