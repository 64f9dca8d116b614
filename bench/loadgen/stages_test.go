package loadgen_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/bench/loadgen"
)

// Each stage sends its number of requests, and begins when enough clients of the one before have ended.
func TestStages_FixedNumbersOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		numbers := []map[int]bool{{}, {}, {}}
		began := make([]time.Duration, 3)
		slots := map[int]bool{}
		recorder := loadgen.NewRecorder()
		summary := run(t, t.Context(), loadgen.Config{
			Recorder: recorder,
			Stages: []loadgen.Stage{
				{Name: "warm", Clients: 4, Requests: 7}, // 2, 2, 2 and 1 each
				{Name: "all", Clients: 3, Requests: 8, Start: 0.25},
				{Name: "cool", Clients: 2, Requests: 2, Start: 1},
			},
			Call: func(_ context.Context, r loadgen.Request) loadgen.Outcome {
				mu.Lock()
				if len(numbers[r.Stage]) == 0 {
					began[r.Stage] = time.Since(start)
				}
				if slots[r.Slot] || numbers[r.Stage][r.Number] {
					t.Errorf("slot %d or number %d of stage %d is there twice", r.Slot, r.Number, r.Stage)
				}
				slots[r.Slot], numbers[r.Stage][r.Number] = true, true
				mu.Unlock()
				time.Sleep(900 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				delete(slots, r.Slot)
				return loadgen.Outcome{Kind: "post"}
			},
		})
		for i, want := range []int{7, 8, 2} {
			if len(numbers[i]) != want {
				t.Errorf("stage %d: got %d requests, want %d", i, len(numbers[i]), want)
			}
		}
		if want := []time.Duration{0, 900 * time.Millisecond, 3600 * time.Millisecond}; began[0] != want[0] || began[1] != want[1] || began[2] != want[2] {
			t.Errorf("stages began after %v, want %v", began, want)
		}
		if summary.All.Count != 17 || len(summary.Phases) != 3 || summary.Phases[1].Took != 2700*time.Millisecond || summary.Plan[2].To != 2 {
			t.Errorf("got %+v", summary)
		}
	})
}

// The end of the context ends the stages, after the requests in flight.
func TestStages_EndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		stages := []loadgen.Stage{{Name: "a", Clients: 2, Requests: 10}, {Name: "b", Clients: 1, Requests: 10, Start: 1}}
		if got := run(t, ctx, loadgen.Config{Stages: stages, Call: taking(900 * time.Millisecond)}).All.Count; got != 6 {
			t.Errorf("got %d requests, want 6", got)
		}
	})
}
