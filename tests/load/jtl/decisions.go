package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"rideshare/bench/api"
)

// callLimit bounds each question to the orchestrator.
const callLimit = 10 * time.Second

// decision is one decision of the scaling.
type decision struct {
	At     time.Time `json:"at"`
	Count  int       `json:"count"`
	Wanted int       `json:"wanted"`
	Done   bool      `json:"done"`
	Why    string    `json:"why"`
}

// cluster calls the API of the system that was under load.
type cluster struct{ url string }

// decisions returns the scaling decisions since start, oldest first.
func (c cluster) decisions(ctx context.Context, start time.Time) ([]decision, error) {
	all, err := get[[]decision](ctx, c.url+"/api/v1/scaling/decisions")
	if err != nil {
		return nil, err
	}
	var since []decision
	for _, d := range all {
		if d.At.After(start) {
			since = append(since, d)
		}
	}
	return since, nil
}

// reconcile waits until one slave is left, and returns the last known number.
func (c cluster) reconcile(ctx context.Context, limit time.Duration) (slaves int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		status, err := get[struct {
			Actual int `json:"actual_slaves"`
		}](ctx, c.url+"/api/v1/cluster")
		if err == nil {
			slaves = status.Actual // kept in case the next request is cut off by the deadline
		}
		if slaves == 1 {
			return 1, nil
		}
		select {
		case <-ctx.Done():
			return slaves, errors.Join(fmt.Errorf("%d slaves are there %v after the last scene, want 1", slaves, limit), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func get[T any](ctx context.Context, url string) (v T, err error) {
	c := api.Client{HTTP: http.DefaultClient, Timeout: callLimit}
	r := c.Send(ctx, http.MethodGet, url, nil)
	if r.Failure(http.StatusOK) != "" {
		return v, fmt.Errorf("GET %s: %v", url, r)
	}
	return api.Decode[T](r)
}

// checkDecisions returns nil if slaves were added, one window has all the reads of the burst, and the slaves were
// removed again.
func checkDecisions(decisions []decision, s scenes) error {
	burst, most, largest := 0, 0, 0
	if b := s.byName[sceneBurst]; b != nil {
		burst = len(b.elapsed)
	}
	var errs []error
	for _, d := range decisions {
		most, largest = max(most, d.Wanted), max(largest, d.Count)
		if !d.Done {
			errs = append(errs, fmt.Errorf("the decision of %v was not carried out: %s", d.At, d.Why))
		}
	}
	if most < 2 {
		errs = append(errs, fmt.Errorf("of %d decisions none wanted more than 1 slave", len(decisions)))
	}
	if largest < burst {
		errs = append(errs, fmt.Errorf("no window counted the %d reads of the burst, the largest has %d: the burst was split", burst, largest))
	}
	if n := len(decisions); n > 0 && decisions[n-1].Wanted != 1 {
		errs = append(errs, fmt.Errorf("after the quiet scene %d slaves are wanted, want 1", decisions[n-1].Wanted))
	}
	return errors.Join(errs...)
}
