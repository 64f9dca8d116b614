package load

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"rideshare/bench/api"
)

// watchEvery is how often the cluster is polled.
const watchEvery = time.Second

// Sample is the state of the cluster at one moment of a run.
type Sample struct {
	At      time.Duration `json:"at_ns"` // since the start of the run
	Desired int           `json:"desired_slaves"`
	Slaves  int           `json:"slaves"`            // running slaves
	Ready   int           `json:"ready"`             // running slaves that are caught up and serve
	Masters int           `json:"masters"`           // masters that are ready
	Lag     uint64        `json:"lag"`               // entries that the last ready slave is behind
	Epoch   uint64        `json:"epoch"`             // grows with every election
	Seq     uint64        `json:"head_seq"`          // seq of the last entry
	Problem string        `json:"problem,omitempty"` // why the other fields are empty
}

// Decision is the decision of one tick of the scaling during a run.
type Decision struct {
	At     time.Time `json:"at"`
	Policy string    `json:"policy"`
	Count  int       `json:"count"` // the input of the decision: reads in the window
	Wanted int       `json:"wanted"`
	Done   bool      `json:"done"`
	Why    string    `json:"why"`
}

// watch polls the cluster every second. It is safe for concurrent use.
type watch struct {
	client *client
	start  time.Time

	mu        sync.Mutex // guards the fields below
	samples   []Sample
	decisions []Decision
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) look(ctx context.Context) {
	sample, err := w.cluster(ctx)
	if ctx.Err() != nil {
		return // the end of the run, not a problem of the cluster
	}
	sample.At = time.Since(w.start)
	if err != nil {
		sample.Problem = err.Error()
	}
	decisions, err := w.recent(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, sample)
	if err == nil {
		w.decisions = decisions
	}
}

// cluster reads the state of the cluster.
func (w *watch) cluster(ctx context.Context) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*watchEvery)
	defer cancel()
	r := w.client.orchestrator.Call(ctx, http.MethodGet, "/api/v1/cluster", nil)
	if r.Failure(http.StatusOK) != "" {
		return Sample{}, fmt.Errorf("ask the cluster: %v", r)
	}
	status, err := api.Decode[api.Cluster](r)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Desired: status.Desired, Epoch: status.Epoch, Seq: status.Head}
	for _, m := range status.Members {
		switch {
		case m.Role == "master" && m.Ready:
			s.Masters++
		case m.Role == "slave":
			s.Slaves++
			if m.Ready {
				s.Ready++
				s.Lag = max(s.Lag, m.Lag)
			}
		}
	}
	return s, nil
}

// recent reads the decisions since the start of the run, oldest first.
func (w *watch) recent(ctx context.Context) ([]Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*watchEvery)
	defer cancel()
	r := w.client.orchestrator.Call(ctx, http.MethodGet, "/api/v1/scaling/decisions", nil)
	if r.Failure(http.StatusOK) != "" {
		return nil, fmt.Errorf("ask for the decisions: %v", r)
	}
	all, err := api.Decode[[]struct {
		Decision
		Reads int `json:"reads"` // the name of the count in older systems
	}](r)
	if err != nil {
		return nil, err
	}
	var recent []Decision
	for _, d := range all {
		if d.At.After(w.start) {
			d.Count = cmp.Or(d.Count, d.Reads)
			recent = append(recent, d.Decision)
		}
	}
	return recent, nil
}

// last returns the newest sample; ok is false before the first.
func (w *watch) last() (s Sample, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.samples) == 0 {
		return Sample{}, false
	}
	return w.samples[len(w.samples)-1], true
}

// seen returns all samples and decisions.
func (w *watch) seen() ([]Sample, []Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.samples, w.decisions
}
