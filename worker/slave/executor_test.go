package slave_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/worker/slave"
)

// codes returns the code of each answer by its index.
func codes(results map[int]dbaas.ReadResult) map[int]dbaas.Code {
	out := map[int]dbaas.Code{}
	for i, r := range results {
		out[i] = r.Code
	}
	return out
}

// serve answers one message and returns when Serve does.
func serve(t *testing.T, source *fakeSource, reads ...dbaas.Read) (*fakeBus, *fakeDelivery, *slave.Executor) {
	t.Helper()
	bus := newBus()
	e := newExecutor(source, bus)
	d, req := request(t, reads...)
	e.Serve(t.Context(), d, req)
	e.Wait()
	return bus, d, e
}

// All fast reads of a message are answered in one reply, from one position.
func TestExecutor_Serve_FastReadsAreOneReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(5)
		bus, d, _ := serve(t, source, read("a", time.Second), read("b", time.Second), read("c", time.Second))
		if len(bus.replies) != 1 || !bus.replies[0].Last || bus.replies[0].id != "7" {
			t.Fatalf("got replies %+v, want only the last", bus.replies)
		}
		results, _ := bus.answers()
		for i, want := range []string{"a", "b", "c"} {
			if got := results[i]; string(got.Body) != want || got.Seq != 5 {
				t.Errorf("read %d: got %q at %d, want %q at 5", i, got.Body, got.Seq, want)
			}
		}
		if d.acked != 1 || source.open != 0 || source.most != 1 {
			t.Errorf("got acked=%d open=%d most=%d, want 1, 0, 1", d.acked, source.open, source.most)
		}
		if ttl := bus.replies[0].ttl; ttl != time.Second {
			t.Errorf("got TTL %v, want what remains: 1s", ttl)
		}
	})
}

// A slow read holds up neither the reads before it nor those after it, and is answered last.
func TestExecutor_Serve_SlowReadDoesNotDelayNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, d, e := serve(t, newSource(1), read("a", time.Second), read("slow 200 ms", time.Second), read("c", time.Second), read("d", time.Second))
		results, at := bus.answers()
		for _, i := range []int{0, 2, 3} {
			if at[i] > 6*time.Millisecond {
				t.Errorf("read %d: answered after %v, want at most 6ms", i, at[i])
			}
		}
		if at[1] != 200*time.Millisecond || results[1].Code != dbaas.CodeOK {
			t.Errorf("slow read: got %q after %v, want ok after 200ms", results[1].Code, at[1])
		}
		if last := bus.replies[len(bus.replies)-1]; !last.Last || len(last.Answers) != 1 || d.acked != 1 {
			t.Errorf("got last reply %+v, acked %d; want the slow read alone, acked once", last, d.acked)
		}
		if got := e.Stats.TakenOver.Load(); got != 1 {
			t.Errorf("got %d takeovers, want 1", got)
		}
	})
}

// More slow reads than there are slots stay within the bound, and are all answered.
func TestExecutor_Serve_SlowReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(1)
		var reads []dbaas.Read
		for range 9 {
			reads = append(reads, read("slow 100 ms", 10*time.Second))
		}
		bus, d, _ := serve(t, source, reads...)
		if results, _ := bus.answers(); len(results) != 9 || d.acked != 1 {
			t.Errorf("got %d answers, acked %d; want 9, 1", len(results), d.acked)
		}
		if source.most > 4 { // Fast 2 and Slow 2
			t.Errorf("got %d readers at the same time, want at most 4", source.most)
		}
	})
}

// A failing read fails alone.
func TestExecutor_Serve_FailingReadFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, _, _ := serve(t, newSource(1), read("a", time.Second), read("fail", time.Second), read("c", time.Second))
		results, _ := bus.answers()
		want := map[int]dbaas.Code{0: "", 1: dbaas.CodeInvalid, 2: ""}
		if diff := cmp.Diff(want, codes(results)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	})
}

// A read past its deadline is not started, and a read that runs past its deadline is interrupted; the others continue.
func TestExecutor_Serve_ExpiredReadTimesOutAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, d, _ := serve(t, newSource(1), read("a", -time.Second), read("slow 500 ms", 50*time.Millisecond), read("c", time.Second))
		results, at := bus.answers()
		want := map[int]dbaas.Code{0: dbaas.CodeTimeout, 1: dbaas.CodeTimeout, 2: ""}
		if diff := cmp.Diff(want, codes(results)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		if at[1] != 50*time.Millisecond || d.acked != 1 {
			t.Errorf("got interrupted after %v, acked %d; want 50ms, 1", at[1], d.acked)
		}
	})
}

// Reads that need a later position wait for it without delaying the others; each read that misses its own deadline gets
// CodeNotCaughtUp.
func TestExecutor_Serve_MinSeqWaitsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(5)
		go func() {
			<-time.After(30 * time.Millisecond)
			source.set(6, true)
			<-time.After(30 * time.Millisecond)
			source.set(8, true)
		}()
		bus, d, _ := serve(t, source,
			read("now", time.Second), readAt(8, "eight", time.Second), readAt(6, "six", time.Second),
			readAt(8, "impatient", 40*time.Millisecond), readAt(9, "never", 100*time.Millisecond))
		results, at := bus.answers()
		wantCodes := map[int]dbaas.Code{0: "", 1: "", 2: "", 3: dbaas.CodeNotCaughtUp, 4: dbaas.CodeNotCaughtUp}
		if diff := cmp.Diff(wantCodes, codes(results)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		wantAt := map[int]time.Duration{0: 0, 1: 60 * time.Millisecond, 2: 30 * time.Millisecond, 3: 40 * time.Millisecond, 4: 100 * time.Millisecond}
		if diff := cmp.Diff(wantAt, at); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		if results[1].Seq != 8 || results[2].Seq < 6 || d.acked != 1 {
			t.Errorf("got positions %d and %d, acked %d; want 8, at least 6, 1", results[1].Seq, results[2].Seq, d.acked)
		}
	})
}

// Reads that cannot be answered yet do not fill the consumer's prefetch: their message is acknowledged while they wait,
// and still answered. Before that the caller is notified which worker holds the message; if the notification cannot be sent,
// the message stays unacknowledged.
func TestExecutor_Serve_SlowMessageIsAcknowledgedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		slow    dbaas.Read
		err     error // of the broker
		holders []dbaas.WorkerID
		acked   int // after a while
	}{
		"Waits":      {readAt(9, "x", 0), nil, []dbaas.WorkerID{"w7"}, 1},
		"Slow":       {read("slow 900 ms", 0), nil, []dbaas.WorkerID{"w7"}, 1},
		"CallerGone": {read("slow 900 ms", 0), mq.ErrUnroutable, []dbaas.WorkerID{"w7"}, 1},
		"Unheard":    {readAt(9, "x", 0), mq.ErrUnconfirmed, []dbaas.WorkerID{"w7"}, 1},
		"Unsent":     {read("slow 900 ms", 0), mq.ErrUnavailable, []dbaas.WorkerID{"w7"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := newBus()
				bus.err = c.err
				e := newExecutor(newSource(1), bus)
				c.slow.Deadline = time.Now().Add(time.Second)
				d, req := request(t, c.slow)
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Serve(t.Context(), d, req)
					e.Wait()
				}()
				for _, step := range []struct {
					after   time.Duration
					acked   int
					holders []dbaas.WorkerID
				}{{40 * time.Millisecond, 0, nil}, {30 * time.Millisecond, c.acked, c.holders}} {
					<-time.After(step.after)
					synctest.Wait()
					if got := d.ackCount(); got != step.acked || !slices.Equal(bus.holders(), step.holders) {
						t.Errorf("%v later: got acked %d and holders %v, want %d and %v", step.after, got, bus.holders(), step.acked, step.holders)
					}
				}
				<-done
				if results, _ := bus.answers(); len(results) != 1 || d.acked != 1 {
					t.Errorf("got %d answers, acked %d; want 1, 1", len(results), d.acked)
				}
			})
		})
	}
}

// A caller whose node is silent does not keep a message that waits from being acknowledged for long, even if the answers to the
// message's other reads are sent before: other messages follow it.
func TestExecutor_Serve_SilentCallerDelaysNoOtherReads(t *testing.T) {
	for name, reads := range map[string][]dbaas.Read{
		"Waits":          {readAt(9, "x", 5*time.Second)},
		"OthersAnswered": {read("y", 5*time.Second), readAt(9, "x", 5*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := newBus()
				bus.silent = time.Second
				e := newExecutor(newSource(1), bus)
				d, req := request(t, reads...)
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Serve(t.Context(), d, req)
					e.Wait()
				}()
				<-time.After(1500 * time.Millisecond)
				synctest.Wait()
				if got := d.ackCount(); got != 1 {
					t.Errorf("got acked %d after 1.5 s, want 1", got)
				}
				<-done
			})
		})
	}
}

// Without a replica reads wait for one, until their own deadlines.
func TestExecutor_Serve_NoReplicaWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(5)
		source.set(0, false)
		go func() {
			<-time.After(50 * time.Millisecond)
			source.set(7, true)
		}()
		bus, _, _ := serve(t, source, read("a", time.Second), read("b", 20*time.Millisecond))
		results, _ := bus.answers()
		want := map[int]dbaas.Code{0: "", 1: dbaas.CodeNotCaughtUp}
		if diff := cmp.Diff(want, codes(results)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		if results[0].Seq != 7 {
			t.Errorf("got position %d, want 7", results[0].Seq)
		}
	})
}

// When the worker is cut off it no longer answers or acknowledges anything, so that the broker redelivers.
func TestExecutor_Serve_CutOffLeavesTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, bus := newSource(1), newBus()
		e := newExecutor(source, bus)
		d, req := request(t, read("slow 900 ms", time.Second), readAt(9, "late", time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		e.Serve(ctx, d, req)
		e.Wait()
		if results, _ := bus.answers(); len(results) != 0 || d.acked != 0 || source.open != 0 {
			t.Errorf("got answers %v, acked %d, open readers %d; want none", results, d.acked, source.open)
		}
	})
}

// A worker that is cut off while a reply is sent does not know whether the caller got the reply: it leaves the message to
// the broker too.
func TestExecutor_Serve_CutOffDuringTheReplyLeavesTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus()
		bus.silent = time.Second
		e := newExecutor(newSource(1), bus)
		d, req := request(t, read("a", time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		e.Serve(ctx, d, req)
		e.Wait()
		if d.acked != 0 {
			t.Errorf("got acked %d, want 0", d.acked)
		}
	})
}

// A caller that has gone is counted, and its message is completed.
func TestExecutor_Serve_VanishedCallerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus()
		bus.err = mq.ErrUnroutable
		e := newExecutor(newSource(1), bus)
		d, req := request(t, read("a", time.Second))
		e.Serve(t.Context(), d, req)
		if got := e.Stats.Unroutable.Load(); got != 1 || d.acked != 1 {
			t.Errorf("got unroutable=%d acked=%d, want 1, 1", got, d.acked)
		}
	})
}

// Reads of another cluster than the replica's wait for that cluster: positions of different clusters cannot be
// compared. They are answered once the replica has it, and otherwise refused at their deadlines, even if they are
// redelivered.
func TestExecutor_Serve_OtherClusterWaits(t *testing.T) {
	for name, redelivered := range map[string]bool{"First": false, "Again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource(900)
				source.cluster = dbaas.ClusterID{1}
				bus := newBus()
				e := newExecutor(source, bus)
				d, req := request(t, readAt(5, "soon", time.Second), readAt(5, "late", time.Minute))
				d.redelivered, req.Cluster = redelivered, dbaas.ClusterID{2}
				go e.Serve(t.Context(), d, req)
				<-time.After(10 * time.Second)
				results, _ := bus.answers()
				if len(results) != 1 || results[0].Code != dbaas.CodeNotCaughtUp {
					t.Errorf("before: got %+v, want the first refused", results)
				}
				source.mu.Lock()
				source.cluster = dbaas.ClusterID{2}
				source.mu.Unlock()
				source.set(5, true)
				synctest.Wait()
				if results, _ = bus.answers(); string(results[1].Body) != "late" || results[1].Seq != 5 {
					t.Errorf("after: got %+v, want the second answered", results)
				}
				e.Wait()
			})
		})
	}
}
