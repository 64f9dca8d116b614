package loadgen_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rideshare/bench/loadgen"
)

func parse(t *testing.T, text string) loadgen.Plan {
	t.Helper()
	plan, err := loadgen.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// run runs a plan to its end, or to that of ctx.
func run(t *testing.T, ctx context.Context, cfg loadgen.Config) loadgen.Summary { //nolint:revive // t first, as everywhere in tests.
	t.Helper()
	if cfg.Recorder == nil {
		cfg.Recorder = loadgen.NewRecorder()
	}
	summary, err := loadgen.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// taking is a call that is answered after d.
func taking(d time.Duration) func(context.Context, loadgen.Request) loadgen.Outcome {
	return func(context.Context, loadgen.Request) loadgen.Outcome {
		time.Sleep(d)
		return loadgen.Outcome{Kind: "read"}
	}
}

// A plan reads as it is written, and anything else is refused.
func TestParsePlan(t *testing.T) {
	got := parse(t, " ramp 60s 0-500; steady 2m 500 ;quiet 1s 0.5;")
	want := loadgen.Plan{
		{Name: "ramp", Duration: time.Minute, From: 0, To: 500},
		{Name: "steady", Duration: 2 * time.Minute, From: 500, To: 500},
		{Name: "quiet", Duration: time.Second, From: 0.5, To: 0.5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"", ";", "ramp", "ramp 60s", "ramp 60 5", "ramp -1s 5", "ramp 0s 5", "ramp 1s x", "ramp 1s -5", "ramp 1s 5-", "ramp 1s NaN", "ramp 1s 1e99", "a b 1s 5"} {
		if plan, err := loadgen.ParsePlan(wrong); err == nil {
			t.Errorf("%q: got %v, want an error", wrong, plan)
		}
	}
}

// In an open loop each request is sent when it is due: as many in each second as
// the plan's rate says, in a ramp and in a steady phase.
func TestRun_Open_SendsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, t.Context(), loadgen.Config{Loop: loadgen.Open, Plan: parse(t, "ramp 4s 0-400; steady 2s 100"), Call: taking(0)})
		var got []int64
		for _, second := range s.Seconds {
			got = append(got, second.All.Count)
		}
		if diff := cmp.Diff([]int64{50, 150, 250, 350, 100, 100}, got); diff != "" {
			t.Errorf("requests in each second (-want +got):\n%s", diff)
		}
		if s.Unsent != 0 || s.All.Count != 1000 || s.All.Took != 6*time.Second {
			t.Errorf("got %d sent in %v and %d unsent, want 1000 in 6s and none", s.All.Count, s.All.Took, s.Unsent)
		}
		if s.Phases[0].Count != 800 || s.Phases[1].Count != 200 {
			t.Errorf("phases: got %+v, want 800 and 200", s.Phases)
		}
	})
}

// However a plan goes up and down, the requests of each phase are the area under its rate.
func TestRun_Open_AreaUnderTheRate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var plan loadgen.Plan
		var want float64
		for range rapid.IntRange(1, 4).Draw(rt, "phases") {
			p := loadgen.Phase{
				Name:     "p",
				Duration: time.Duration(rapid.IntRange(1, 5000).Draw(rt, "ms")) * time.Millisecond,
				From:     float64(rapid.IntRange(0, 300).Draw(rt, "from")), To: float64(rapid.IntRange(0, 300).Draw(rt, "to")),
			}
			plan = append(plan, p)
			want += (p.From + p.To) / 2 * p.Duration.Seconds()
		}
		synctest.Test(t, func(t *testing.T) {
			s := run(t, t.Context(), loadgen.Config{Loop: loadgen.Open, Plan: plan, Call: taking(0)})
			if math.Abs(float64(s.All.Count+s.Unsent)-want) > 1 {
				rt.Fatalf("got %d requests, want %.1f", s.All.Count, want)
			}
		})
	})
}

// A system that stands still for a second delays all that was due in that second,
// not only the request that it happened to hold.
func TestRun_Open_LatencyCountsFromTheDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		s := run(t, t.Context(), loadgen.Config{
			Loop: loadgen.Open, Plan: parse(t, "steady 2s 100"), MaxInFlight: 1,
			Call: func(context.Context, loadgen.Request) loadgen.Outcome {
				if sent.Add(1) == 1 {
					time.Sleep(time.Second)
				}
				return loadgen.Outcome{Kind: "read"}
			},
		})
		// 100 of 200 requests waited, evenly between 10 ms and 1 s: a quarter longer than 500 ms.
		if got := s.Distribution["read"]; len(got) == 0 {
			t.Fatal("no distribution")
		}
		if s.All.P90 < 780*time.Millisecond || s.All.P50 > 20*time.Millisecond || s.All.Max < time.Second {
			t.Errorf("latencies: got p50 %v, p90 %v, max %v, want 10ms, 800ms, 1s", s.All.P50, s.All.P90, s.All.Max)
		}
	})
}

// What is due while all places are taken until the end is counted, and not sent.
func TestRun_Open_OverloadedCountsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, t.Context(), loadgen.Config{
			Loop: loadgen.Open, Plan: parse(t, "steady 1s 10"), MaxInFlight: 2, Call: taking(time.Minute),
		})
		if s.All.Count != 2 || s.Unsent != 8 {
			t.Errorf("got %d sent, %d unsent, want 2 and 8", s.All.Count, s.Unsent)
		}
		if s.All.Took != time.Minute+100*time.Millisecond || len(s.Seconds) != 61 {
			t.Errorf("got %v in %d seconds, want the run to last until its last answer", s.All.Took, len(s.Seconds))
		}
	})
}

// A closed loop has as many working clients as the plan says, each with one request in flight, and none after the plan's
// end.
func TestRun_Closed_ClientsFollowThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := run(t, t.Context(), loadgen.Config{
			Loop: loadgen.Closed, Plan: parse(t, "few 1s 2; many 1s 5; none 1s 0"),
			Call: func(context.Context, loadgen.Request) loadgen.Outcome {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(100 * time.Millisecond)
				return loadgen.Outcome{Kind: "read"}
			},
		})
		if s.Phases[0].Count != 20 || s.Phases[1].Count < 48 || s.Phases[1].Count > 50 || s.Phases[2].Count != 0 || most.Load() != 5 {
			t.Errorf("got %+v and %d at once, want 20, 50, 0 and 5", s.Phases, most.Load())
		}
	})
}

// A client of a closed loop pauses for as long as the outcome asks for.
func TestRun_Closed_ClientPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, t.Context(), loadgen.Config{
			Loop: loadgen.Closed, Plan: parse(t, "steady 10s 1"),
			Call: func(context.Context, loadgen.Request) loadgen.Outcome {
				return loadgen.Outcome{Kind: "read", Failure: "503", Pause: time.Second}
			},
		})
		if s.All.Count != 10 || s.All.Failed != 10 || s.All.Failures["503"] != 10 {
			t.Errorf("got %+v, want 10 failures", s.All)
		}
	})
}

// The end of ctx stops the sending; requests in flight are waited for and their context stays valid.
func TestRun_Cancelled_WaitsForAnswers(t *testing.T) {
	for _, loop := range []loadgen.Loop{loadgen.Open, loadgen.Closed} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			s := run(t, ctx, loadgen.Config{
				Loop: loop, Plan: parse(t, "steady 1h 1"),
				Call: func(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
					time.Sleep(700 * time.Millisecond)
					if ctx.Err() != nil {
						return loadgen.Outcome{Kind: "read", Failure: "cancelled"}
					}
					return loadgen.Outcome{Kind: "read"}
				},
			})
			if s.All.Count < 2 || s.All.Count > 3 || s.All.Failed != 0 || s.Unsent != 0 || s.All.Took > 2100*time.Millisecond {
				t.Errorf("%s: got %+v, %d unsent, want 2 or 3 answers and no failure", loop, s.All, s.Unsent)
			}
		})
	}
}

// Progress shows the last whole second, also when nothing was answered in it.
func TestRecorder_Progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := loadgen.NewRecorder()
		if p := r.Progress(time.Now()); p.Left != 0 || p.Total.Count != 0 {
			t.Errorf("before the start: got %+v, want zero", p)
		}
		done := make(chan loadgen.Summary)
		go func() {
			done <- run(t, t.Context(), loadgen.Config{Loop: loadgen.Open, Plan: parse(t, "steady 2s 50; none 2s 0"), Call: taking(0), Recorder: r})
		}()
		synctest.Wait()
		for _, want := range []struct {
			after       time.Duration
			phase       int
			last, total int64
		}{{1500 * time.Millisecond, 0, 50, 50}, {time.Second, 1, 50, 100}, {time.Second, 1, 0, 100}} {
			time.Sleep(want.after)
			p := r.Progress(time.Now())
			if p.Phase != want.phase || p.Last.All.Count != want.last || p.Total.Count != want.total {
				t.Errorf("got %+v, want %+v", p, want)
			}
		}
		<-done
	})
}

// Kinds are counted separately, and failures by their names.
func TestRun_KindsAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		s := run(t, t.Context(), loadgen.Config{
			Loop: loadgen.Open, Plan: parse(t, "steady 3s 100"),
			Call: func(context.Context, loadgen.Request) loadgen.Outcome {
				if n.Add(1)%3 == 0 {
					time.Sleep(50 * time.Millisecond)
					return loadgen.Outcome{Kind: "write", Failure: "504"}
				}
				return loadgen.Outcome{Kind: "read"}
			},
		})
		if len(s.Kinds) != 2 || s.Kinds[0].Name != "read" || s.Kinds[0].Count != 200 || s.Kinds[1].Failures["504"] != 100 {
			t.Errorf("kinds: got %+v, want 200 reads and 100 writes that failed", s.Kinds)
		}
		if p50 := s.Kinds[1].P50; p50 < 49*time.Millisecond || p50 > 51*time.Millisecond {
			t.Errorf("writes: got p50 %v, want 50ms", p50)
		}
		if s.Seconds[1].Kinds["write"].Failed == 0 || s.All.Failed != 100 {
			t.Errorf("failures: got %+v, want them in each second and in all", s.Seconds[1])
		}
	})
}

// Requests in flight have slots of their own, fewer than there are clients or places.
func TestRun_Slots_AreOfOneRequestAtATime(t *testing.T) {
	const most = 3
	for loop, plan := range map[loadgen.Loop]string{loadgen.Open: "steady 2s 100", loadgen.Closed: "steady 2s 3"} {
		synctest.Test(t, func(t *testing.T) {
			var taken [most]atomic.Bool
			run(t, t.Context(), loadgen.Config{
				Loop: loop, Plan: parse(t, plan), MaxInFlight: most,
				Call: func(_ context.Context, r loadgen.Request) loadgen.Outcome {
					if !taken[r.Slot].CompareAndSwap(false, true) {
						t.Errorf("%s: two requests have slot %d", loop, r.Slot)
					}
					time.Sleep(50 * time.Millisecond)
					taken[r.Slot].Store(false)
					return loadgen.Outcome{Kind: "read"}
				},
			})
		})
	}
}
