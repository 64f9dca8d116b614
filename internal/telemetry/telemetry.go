// Package telemetry sets up log lines and Prometheus metrics. It costs the data path little: counting a request
// takes a lookup and two atomic additions.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rideshare/internal/tracing"
)

// Registry is where metrics are registered; the alias spares other packages from importing Prometheus.
type Registry = prometheus.Registry

// NewRegistry returns a registry with the metrics of the Go runtime and the process. A process needs exactly one,
// however many parts run in it.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// WithMetrics returns next with the metrics of reg added at GET /metrics.
func WithMetrics(reg *Registry, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", Handler(reg))
	mux.Handle("/", next)
	return mux
}

// Handler serves the metrics of reg in Prometheus' text format. While tracing is on, a client that accepts OpenMetrics gets
// that format, the only one with exemplars.
func Handler(reg *prometheus.Registry) http.Handler {
	plain := promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	open := promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tracing.On() {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// observe counts a duration. If trace is not "", it becomes the exemplar.
func observe(o prometheus.Observer, took time.Duration, trace string) {
	if trace == "" {
		o.Observe(took.Seconds())
		return
	}
	// All observers are histograms, which take exemplars.
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
}
