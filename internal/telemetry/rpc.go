package telemetry

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rideshare/internal/dbaas"
)

// RPC counts the requests and messages on the bus. It is safe for concurrent use.
type RPC struct {
	seconds *prometheus.HistogramVec
	batch   *prometheus.HistogramVec
	// known saves hashing the labels for each request.
	known sync.Map
}

type rpcLabels struct {
	queue, lane string
	outcome     dbaas.Code
}

// NewRPC registers rideshare_rpc_seconds{queue,lane,outcome} and
// rideshare_rpc_batch_requests{lane}.
func NewRPC(reg prometheus.Registerer) (*RPC, error) {
	r := &RPC{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rideshare_rpc_seconds", Buckets: buckets,
			Help: "Time from a request's arrival at the dispatcher to its end, by queue, lane and outcome: ok or the code of its failure.",
		}, []string{"queue", "lane", "outcome"}),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rideshare_rpc_batch_requests", Help: "Requests in a message.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}, []string{"lane"}),
	}
	for _, c := range []prometheus.Collector{r.seconds, r.batch} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register rpc metrics: %w", err)
		}
	}
	return r, nil
}

// Observe counts one completed request. queue and lane must come from bounded sets. trace is the id of the
// request's trace, which becomes the exemplar, or "".
func (r *RPC) Observe(queue, lane string, outcome dbaas.Code, took time.Duration, trace string) {
	key := rpcLabels{queue, lane, outcome}
	found, ok := r.known.Load(key)
	if !ok {
		found, _ = r.known.LoadOrStore(key, r.seconds.WithLabelValues(queue, lane, outcomeOf(outcome)))
	}
	observe(found.(prometheus.Observer), took, trace) // Only this method stores in known.
}

// ObserveMessage counts one message and the requests in it.
func (r *RPC) ObserveMessage(lane string, requests int) {
	r.batch.WithLabelValues(lane).Observe(float64(requests))
}
