package telemetry

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets are the upper bounds of request durations, in seconds: from a batched
// read (a fraction of a millisecond) to the longest call timeouts.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Requests counts HTTP requests of one part. It is safe for concurrent use.
type Requests struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	// known maps labels to series, and saves hashing the labels for each request.
	known sync.Map
}

type labels struct {
	route, method string
	status        int
}

type series struct {
	total   prometheus.Counter
	seconds prometheus.Observer
}

// NewRequests registers rideshare_http_requests_total{part,route,method,code}
// and rideshare_http_request_seconds{part,route} for one part. Several parts
// may share a registry; the same part twice is an error.
func NewRequests(reg prometheus.Registerer, part string) (*Requests, error) {
	constant := prometheus.Labels{"part": part}
	r := &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rideshare_http_requests_total", Help: "HTTP requests answered. Code 499 stands for a 5xx whose client left before it.", ConstLabels: constant,
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rideshare_http_request_seconds", Help: "Time from request to answer.", ConstLabels: constant, Buckets: buckets,
		}, []string{"route"}),
	}
	for _, c := range []prometheus.Collector{r.total, r.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics of %s: %w", part, err)
		}
	}
	return r, nil
}

// Observe counts one answered request. route and method must come from a bounded set, as in httpapi.Config.Observe.
// trace is the id of the request's trace, which becomes the exemplar, or "".
func (r *Requests) Observe(route, method string, status int, took time.Duration, trace string) {
	key := labels{route, method, status}
	found, ok := r.known.Load(key)
	if !ok {
		found, _ = r.known.LoadOrStore(key, &series{
			total:   r.total.WithLabelValues(route, method, strconv.Itoa(status)),
			seconds: r.seconds.WithLabelValues(route),
		})
	}
	s := found.(*series) // Only this method stores in known.
	s.total.Inc()
	observe(s.seconds, took, trace)
}
