// Package telemetry sets up what a part tells about itself: JSON log lines and
// Prometheus metrics. It is beside the data path: counting a request costs a
// look-up and two atomic additions.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rideshare/internal/logkey"
)

// NewLogger returns a logger that writes one JSON object a line to w, each with
// the part's name. level is debug, info, warn or error in any case, or ""
// for info; anything else is an error that names what is allowed.
func NewLogger(w io.Writer, level, part string) (*slog.Logger, error) {
	lowest := slog.LevelInfo
	if level != "" {
		if err := lowest.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("log level %q is none of debug, info, warn, error: %w", level, err)
		}
	}
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: lowest})
	return slog.New(handler).With(logkey.Part, part), nil
}

// Registry is where metrics are registered, so that others need not know Prometheus.
type Registry = prometheus.Registry

// NewRegistry returns a registry with the metrics of the Go runtime and the
// process. One process needs one, however many parts run in it.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// WithMetrics returns next with the metrics of reg at GET /metrics.
func WithMetrics(reg *Registry, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", Handler(reg))
	mux.Handle("/", next)
	return mux
}

// Handler serves the metrics of reg in Prometheus' text format.
func Handler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
