// Package telemetry sets up JSON log lines and Prometheus metrics. It costs the data path little: counting a request
// takes a lookup and two atomic additions.
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

// NewLogger returns a logger that writes one JSON object per line to w, each with the part's name. level is debug, info,
// warn or error in any case, or "" for info; for any other level the error lists the allowed ones.
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

// Handler serves the metrics of reg in Prometheus' text format.
func Handler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
