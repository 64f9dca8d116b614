package loadgen

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figures summarizes the requests of a period. Latencies include failed requests: a client waited for them too.
type Figures struct {
	Count    int64            `json:"count"` // answered, successfully or not
	Failed   int64            `json:"failed"`
	Failures map[string]int64 `json:"failures,omitempty"` // by name
	P50      time.Duration    `json:"p50_ns"`
	P90      time.Duration    `json:"p90_ns"`
	P99      time.Duration    `json:"p99_ns"`
	P999     time.Duration    `json:"p999_ns"`
	Max      time.Duration    `json:"max_ns"`
}

// Second summarizes the requests that were answered in one second of a run.
type Second struct {
	// At is the start of the second, since the start of the run.
	At time.Duration `json:"at_ns"`
	// Took is less than a second only for the last Second.
	Took time.Duration `json:"took_ns"`
	// Level is the plan's level in the middle of the second.
	Level float64            `json:"level"`
	All   Figures            `json:"all"`
	Kinds map[string]Figures `json:"kinds,omitempty"`
}

// Rate returns answers per second.
func (s Second) Rate() float64 { return rate(s.All.Count, s.Took) }

// Stretch is the figures of a longer period: a phase, or the run.
type Stretch struct {
	Name string        `json:"name,omitempty"`
	Took time.Duration `json:"took_ns"`
	Figures
}

// Rate returns answers per second.
func (s Stretch) Rate() float64 { return rate(s.Count, s.Took) }

func rate(count int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(count) / took.Seconds()
}

// Quantile is one point of a latency distribution: the share of requests in
// percent that took at most Latency.
type Quantile struct {
	Percent float64       `json:"percent"`
	Latency time.Duration `json:"latency_ns"`
}

// Summary is the figures of a completed run.
type Summary struct {
	Start        time.Time             `json:"start"`
	Loop         Loop                  `json:"loop"`
	Plan         Plan                  `json:"plan"`
	Unsent       int64                 `json:"unsent"` // open loop only: requests that were due but not sent, because MaxInFlight was reached
	All          Stretch               `json:"all"`
	Phases       []Stretch             `json:"phases"`
	Kinds        []Stretch             `json:"kinds"`        // ordered by name
	Distribution map[string][]Quantile `json:"distribution"` // by kind
	Seconds      []Second              `json:"seconds"`
}

// longest is the longest latency that is distinguished from longer ones.
const longest = 5 * time.Minute

// Tally collects requests until its figures are read. It is not safe for concurrent use.
type Tally struct {
	latencies *hdrhistogram.Histogram // in microseconds
	failed    int64
	failures  map[string]int64
}

// NewTally returns an empty tally.
func NewTally() *Tally {
	return &Tally{latencies: hdrhistogram.New(1, longest.Microseconds(), 3), failures: map[string]int64{}}
}

// Add adds one request; failure is empty or the name of its failure.
func (t *Tally) Add(latency time.Duration, failure string) {
	// A value within the bounds is always recorded.
	_ = t.latencies.RecordValue(min(max(1, latency.Microseconds()), longest.Microseconds()))
	if failure != "" {
		t.failed++
		t.failures[failure]++
	}
}

// Merge adds the requests of other.
func (t *Tally) Merge(other *Tally) {
	t.latencies.Merge(other.latencies)
	t.failed += other.failed
	for name, n := range other.failures {
		t.failures[name] += n
	}
}

func (t *Tally) reset() {
	t.latencies.Reset()
	t.failed = 0
	clear(t.failures)
}

// Figures returns the figures of the requests so far.
func (t *Tally) Figures() Figures {
	f := Figures{
		Count: t.latencies.TotalCount(), Failed: t.failed,
		P50: t.quantile(50), P90: t.quantile(90), P99: t.quantile(99), P999: t.quantile(99.9), Max: t.quantile(100),
	}
	if len(t.failures) > 0 {
		f.Failures = maps.Clone(t.failures)
	}
	return f
}

func (t *Tally) quantile(percent float64) time.Duration {
	return time.Duration(t.latencies.ValueAtQuantile(percent)) * time.Microsecond
}

// distribution returns the latency at quantiles that get denser towards 100 %, as far as there are enough requests to
// tell them apart.
func (t *Tally) distribution() []Quantile {
	count := float64(t.latencies.TotalCount())
	if count == 0 {
		return nil
	}
	var points []Quantile
	for rest := 100.0; rest >= 100/count && rest > 1e-4; rest *= 0.8 {
		points = append(points, Quantile{Percent: 100 - rest, Latency: t.quantile(100 - rest)})
	}
	return points
}
