package system

import (
	"cmp"
	"net/http"
	"time"

	"rideshare/internal/telemetry"
)

// metrics is the single registry of the process.
type metrics struct {
	registry *telemetry.Registry
	rpc      *telemetry.RPC
}

// newMetrics returns the metrics of a system, in registry, or in a new registry if that is nil.
func newMetrics(registry *telemetry.Registry) (metrics, error) {
	m := metrics{registry: cmp.Or(registry, telemetry.NewRegistry())}
	var err error
	m.rpc, err = telemetry.NewRPC(m.registry)
	return m, err
}

// of returns the function that counts the requests of a part.
func (m metrics) of(part string) (func(route, method string, status int, took time.Duration, trace string), error) {
	requests, err := telemetry.NewRequests(m.registry, part)
	if err != nil {
		return nil, err
	}
	return requests.Observe, nil
}

func (m metrics) handler() http.Handler { return telemetry.Handler(m.registry) }
