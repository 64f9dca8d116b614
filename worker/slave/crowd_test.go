package slave_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/worker/slave"
)

// Slow reads that find no slow slot wait for one, until their deadlines. However many they are, in one message or in
// many, they hold up no others: the reads beside them are answered as if there were no slow ones.
func TestExecutor_Serve_SlowReadsWithoutPlaceWaitAside(t *testing.T) {
	for name, c := range map[string]struct {
		messages, each int
		after          time.Duration // when the read beside them arrives
	}{"InManyMessages": {40, 1, 0}, "InOneMessage": {1, 40, 0}, "InManyMessagesEach": {200, 5, 600 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := newBus()
				e := newExecutor(newSource(1), bus)
				var serving sync.WaitGroup
				for range c.messages {
					reads := make([]dbaas.Read, c.each)
					for i := range reads {
						reads[i] = read("slow 9000 ms", 10*time.Second)
					}
					d, req := request(t, reads...)
					serving.Go(func() { e.Serve(t.Context(), d, req) })
				}
				<-time.After(c.after)
				synctest.Wait()
				began := time.Now()
				point := newBus()
				d, req := request(t, read("a", time.Second))
				d.message.ReplyTo = "other"
				bus.others = map[string]*fakeBus{"other": point}
				e.Serve(t.Context(), d, req)
				if took := time.Since(began); took > 250*time.Millisecond {
					t.Errorf("a read beside them took %v", took)
				}
				if results, _ := point.answers(); string(results[0].Body) != "a" {
					t.Errorf("a read beside them: got %+v", results)
				}
				serving.Wait()
				e.Wait()
				got := map[dbaas.Code]int{}
				for _, r := range bus.replies {
					for _, a := range r.Answers {
						got[a.Result.Code]++
					}
				}
				if late := got[dbaas.CodeTimeout] + got[dbaas.CodeUnavailable]; got[dbaas.CodeOK] != 2 || late != c.messages*c.each-2 {
					t.Errorf("got codes %v, want 2 answers and that all others found no place in time", got)
				}
			})
		})
	}
}

// Reads that wait for a position and exceed the bound are refused: they hold up no read that can be answered.
func TestExecutor_Serve_WaitingReadsWithoutRoomAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus()
		e := newExecutor(newSource(1), bus)
		var serving sync.WaitGroup
		var deliveries []*fakeDelivery
		for range 300 {
			d, req := request(t, readAt(9, "x", 10*time.Second))
			deliveries = append(deliveries, d)
			serving.Go(func() { e.Serve(t.Context(), d, req) })
		}
		<-time.After(time.Second)
		synctest.Wait()
		if i := slices.IndexFunc(deliveries, func(d *fakeDelivery) bool { return d.ackCount() == 0 }); i >= 0 {
			t.Error("a message is held although it cannot be answered soon")
		}
		if got := e.Stats.Crowded.Load(); got != 300-256 {
			t.Errorf("got %d reads refused, want 44", got)
		}
		serving.Wait()
		e.Wait()
	})
}

// All answers that wait for the broker share one bound: a read beyond it is refused.
func TestExecutor_Serve_AnswersHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus()
		bus.takes = time.Second
		e := slave.NewExecutor(slave.Config{
			Worker: "w7", Source: newSource(1), Bus: bus, Log: slog.New(slog.DiscardHandler), Fast: 10, AnswerBytes: 1000,
		})
		var serving sync.WaitGroup
		for range 4 {
			d, req := request(t, read("large 400", 10*time.Second))
			serving.Go(func() { e.Serve(t.Context(), d, req) })
		}
		serving.Wait()
		d, req := request(t, read("large 2000", 10*time.Second)) // alone
		e.Serve(t.Context(), d, req)
		e.Wait()
		got := map[string]int{}
		for _, r := range bus.replies {
			for _, a := range r.Answers {
				got[fmt.Sprint(a.Result.Code, len(a.Result.Body))]++
			}
		}
		if diff := cmp.Diff(map[string]int{"400": 2, "unavailable0": 2, "2000": 1}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

// A run of large answers sends them whenever they fill a reply, and does not gather all of them.
func TestExecutor_Serve_LargeAnswersAreSentAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make([]dbaas.Read, 100)
		for i := range reads {
			reads[i] = read("large 1000000", time.Minute)
		}
		bus := newBus()
		e := slave.NewExecutor(slave.Config{
			Worker: "w7", Source: newSource(1), Bus: bus, Log: slog.New(slog.DiscardHandler), AnswerBytes: 8 << 20,
		})
		d, req := request(t, reads...)
		e.Serve(t.Context(), d, req)
		if results, _ := bus.answers(); len(results) != 100 || len(bus.replies) < 20 {
			t.Errorf("got %d answers in %d replies", len(results), len(bus.replies))
		}
		for _, r := range bus.replies {
			for _, a := range r.Answers {
				if a.Result.Code != dbaas.CodeOK {
					t.Fatalf("read %d: got %s", a.Index, a.Result.Message)
				}
			}
		}
	})
}

// A run whose answers fill a reply gives its slot up while the broker takes the reply: reads of other callers go on.
func TestExecutor_Serve_LargeReplyHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := newBus(), newBus()
		slow.takes = 5 * time.Second
		slow.others = map[string]*fakeBus{"quick": quick}
		e := slave.NewExecutor(slave.Config{Worker: "w7", Source: newSource(1), Bus: slow, Log: slog.New(slog.DiscardHandler), Fast: 1})
		var serving sync.WaitGroup
		large := read("large 4200000", time.Minute)
		d, req := request(t, large, large, large)
		serving.Go(func() { e.Serve(t.Context(), d, req) })
		<-time.After(100 * time.Millisecond)
		other, point := request(t, read("x", time.Minute))
		other.message.ReplyTo = "quick"
		serving.Go(func() { e.Serve(t.Context(), other, point) })
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if results, _ := quick.answers(); len(results) != 1 {
			t.Errorf("got %d answers to the other caller after 100 ms, want 1", len(results))
		}
		serving.Wait()
		e.Wait()
		if results, _ := slow.answers(); len(results) != 3 {
			t.Errorf("got %d large answers, want 3", len(results))
		}
	})
}

// The reads of a message whose previous worker died run one after another, each after its caller was notified.
func TestExecutor_Serve_ReadsOfADeadWorkerRunAlone(t *testing.T) {
	for name, mark := range map[string]func(*fakeDelivery, *bool){
		"Redelivered": func(d *fakeDelivery, _ *bool) { d.redelivered = true },
		"SentAgain":   func(_ *fakeDelivery, again *bool) { *again = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, source := newBus(), newSource(5)
				e := newExecutor(source, bus)
				d, req := request(t, read("slow 100 ms", time.Second), readAt(6, "six", time.Second), read("b", time.Second), readAt(9, "never", time.Second), read("fail", time.Second))
				mark(d, &req.Again)
				go func() {
					<-time.After(200 * time.Millisecond)
					source.set(6, true)
				}()
				e.Serve(t.Context(), d, req)
				e.Wait()
				results, at := bus.answers()
				wantCodes := map[int]dbaas.Code{0: "", 1: "", 2: "", 3: dbaas.CodeNotCaughtUp, 4: dbaas.CodeInvalid}
				if diff := cmp.Diff(wantCodes, codes(results)); diff != "" {
					t.Errorf("codes (-want +got):\n%s", diff)
				}
				wantAt := map[int]time.Duration{0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 2: 100 * time.Millisecond, 3: time.Second, 4: 100 * time.Millisecond}
				if diff := cmp.Diff(wantAt, at); diff != "" {
					t.Errorf("times (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]int{0, 2, 4, 1}, bus.running); diff != "" {
					t.Errorf("announced (-want +got):\n%s", diff)
				}
				if len(bus.replies) != 5 || d.acked != 1 || source.open != 0 {
					t.Errorf("got %d replies, acked %d, %d readers", len(bus.replies), d.acked, source.open)
				}
			})
		})
	}
}

// However many slow reads run, only a few of them work at a time, in turns; apart from them only reads run that are not
// slow yet.
func TestExecutor_Serve_SlowReadsWorkByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, source := newBus(), newSource(1)
		e := slave.NewExecutor(slave.Config{Worker: "w7", Source: source, Bus: bus, Log: slog.New(slog.DiscardHandler), Fast: 2})
		var serving sync.WaitGroup
		began := time.Now()
		for range 10 {
			d, req := request(t, read("busy 100 ms", 10*time.Second))
			serving.Go(func() { e.Serve(t.Context(), d, req) })
		}
		serving.Wait()
		e.Wait()
		if source.busiest > 5 {
			t.Errorf("%d reads worked at the same time, want at most one that is slow, and two that become slow while two others begin", source.busiest)
		}
		results := 0
		for _, r := range bus.replies {
			results += len(r.Answers)
		}
		if took := time.Since(began); results != 10 || took > 1200*time.Millisecond {
			t.Errorf("got %d answers after %v, want 10 after about a second of work", results, took)
		}
	})
}

// More slow reads than there are slots, each with enough time, are all answered.
func TestExecutor_Serve_BurstOfSlowReadsIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make([]dbaas.Read, 30)
		for i := range reads {
			reads[i] = read("slow 100 ms", 5*time.Second)
		}
		bus, d, _ := serve(t, newSource(1), reads...)
		results, _ := bus.answers()
		for i, r := range results {
			if r.Code != dbaas.CodeOK {
				t.Errorf("read %d: got %s", i, r.Message)
			}
		}
		if len(results) != len(reads) || d.acked != 1 {
			t.Errorf("got %d answers, acked %d", len(results), d.acked)
		}
	})
}

// Reads of dead workers that wait for a position leave the slots to reads that can run.
func TestExecutor_Serve_WaitingReadsOfDeadWorkersHoldNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus()
		e := newExecutor(newSource(1), bus)
		var serving sync.WaitGroup
		for range 5 {
			d, req := request(t, readAt(9, "never", 10*time.Second))
			d.redelivered = true
			serving.Go(func() { e.Serve(t.Context(), d, req) })
		}
		synctest.Wait()
		began := time.Now()
		d, req := request(t, read("a", time.Second))
		d.redelivered = true
		e.Serve(t.Context(), d, req)
		if took := time.Since(began); took > 0 || d.acked != 1 {
			t.Errorf("a read that can run: after %v, acked %d", took, d.acked)
		}
		serving.Wait()
		e.Wait()
	})
}
