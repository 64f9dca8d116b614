package telemetry

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rideshare/internal/dbaas"
)

// Commits counts persdb's commits. It is safe for concurrent use.
type Commits struct {
	seconds    *prometheus.HistogramVec
	sync       prometheus.Histogram
	operations prometheus.Histogram
}

// NewCommits registers rideshare_persdb_commit_seconds{outcome},
// rideshare_persdb_sync_seconds and rideshare_persdb_commit_operations.
func NewCommits(reg prometheus.Registerer) (*Commits, error) {
	c := &Commits{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rideshare_persdb_commit_seconds", Buckets: buckets,
			Help: "Time of one commit of a batch, waiting for its turn included, by outcome: ok or the code of its failure.",
		}, []string{"outcome"}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rideshare_persdb_sync_seconds", Help: "Time of the append to the log, which is its fsync.", Buckets: buckets,
		}),
		operations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rideshare_persdb_commit_operations", Help: "Operations in a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
	}
	c.seconds.WithLabelValues("ok")
	for _, m := range []prometheus.Collector{c.seconds, c.sync, c.operations} {
		if err := reg.Register(m); err != nil {
			return nil, fmt.Errorf("register commit metrics: %w", err)
		}
	}
	return c, nil
}

// Observe counts one commit.
func (c *Commits) Observe(operations int, outcome dbaas.Code, took time.Duration) {
	c.seconds.WithLabelValues(outcomeOf(outcome)).Observe(took.Seconds())
	c.operations.Observe(float64(operations))
}

// ObserveSync counts one fsync.
func (c *Commits) ObserveSync(took time.Duration) { c.sync.Observe(took.Seconds()) }

// outcomeOf converts a code to a label.
func outcomeOf(code dbaas.Code) string {
	if code == dbaas.CodeOK {
		return "ok"
	}
	return string(code)
}
