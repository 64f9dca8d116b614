package slave_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/mqtest"
	"rideshare/worker/slave"
)

// steps returns the parts at work.
func steps(e *slave.Executor) map[string]uint64 {
	working := map[string]uint64{}
	e.AddWorking(working)
	return working
}

// No part that serves reads seems stuck while reads wait or take long, within their own time limits: reads that run for
// seconds, more of them than there are slots, a position that is not reached, a broker that takes no answers.
func TestExecutor_Pulse_WaitingIsRest(t *testing.T) {
	for name, c := range map[string]struct {
		messages int
		texts    []string
		seq      dbaas.Seq
		takes    time.Duration
	}{
		"Nothing":    {},
		"Slow":       {messages: 1, texts: []string{"slow 9000 ms"}},
		"Busy":       {messages: 2, texts: []string{"busy 9000 ms"}},
		"Crowded":    {messages: 20, texts: []string{"slow 9000 ms", "slow 9000 ms"}},
		"Position":   {messages: 5, texts: []string{"a"}, seq: 9},
		"BrokerSlow": {messages: 5, texts: []string{"large 5000000", "large 5000000"}, takes: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, source := newBus(), newSource(1)
				bus.takes = c.takes
				e := newExecutor(source, bus)
				for range c.messages {
					var reads []dbaas.Read
					for _, text := range c.texts {
						reads = append(reads, readAt(c.seq, text, 10*time.Second))
					}
					d, req := request(t, reads...)
					go e.Serve(t.Context(), d, req)
				}
				before := steps(e)
				for range 40 {
					<-time.After(100 * time.Millisecond)
					synctest.Wait()
					now := steps(e)
					for part, n := range now {
						if was, ok := before[part]; ok && was == n {
							t.Fatalf("%s has done no step: got %v, then %v", part, before, now)
						}
					}
					before = now
				}
				<-time.After(30 * time.Second)
				e.Wait()
			})
		})
	}
}

// A slave that is stuck names the part, whose steps stay the same, although other reads go on.
func TestExecutor_Pulse_StuckPartIsNamed(t *testing.T) {
	for part, stick := range map[string]func(t *testing.T, bus *fakeBus, source *fakeSource, until <-chan struct{}){
		"taking reads": func(t *testing.T, bus *fakeBus, _ *fakeSource, until <-chan struct{}) {
			t.Helper()
			d, _ := request(t, read("a", time.Minute))
			bus.deliveries <- mqtest.StuckDelivery{Delivery: d, Until: until}
		},
		"reading in slot 1": func(t *testing.T, bus *fakeBus, source *fakeSource, until <-chan struct{}) {
			t.Helper()
			source.stick(until)
			d, _ := request(t, read("a", time.Minute))
			bus.deliveries <- d
			synctest.Wait()
			source.stick(nil)
			for i := range 20 {
				other, _ := request(t, read(fmt.Sprint(i), time.Minute))
				bus.deliveries <- other
			}
		},
	} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, source, until := newBus(), newSource(1), make(chan struct{})
				e := newExecutor(source, bus)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- slave.New(bus, source, e, slog.New(slog.DiscardHandler)).Run(ctx, nil, func(bool) {}) }()
				stick(t, bus, source, until)
				synctest.Wait()
				before := steps(e)
				<-time.After(time.Second)
				if after := steps(e); len(after) != 1 || after[part] == 0 || !maps.Equal(before, after) {
					t.Errorf("at work: got %v, then %v, want %s with the same steps", before, after, part)
				}
				close(until)
				synctest.Wait()
				if got := steps(e); len(got) > 0 {
					t.Errorf("at work after that: got %v, want nothing", got)
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		})
	}
}

// A slave that waits for the broker to take a rejected message is at rest.
func TestSlave_Pulse_RejectingIsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, source, until := newBus(), newSource(1), make(chan struct{})
		e := newExecutor(source, bus)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- slave.New(bus, source, e, slog.New(slog.DiscardHandler)).Run(ctx, nil, func(bool) {}) }()
		bus.deliveries <- mqtest.SlowToReject{Until: until}
		synctest.Wait()
		if got := steps(e); len(got) > 0 || e.Stats.Rejected.Load() != 1 {
			t.Errorf("at work: got %v after %d rejections, want nothing after one", got, e.Stats.Rejected.Load())
		}
		close(until)
		synctest.Wait()
		if got := steps(e); len(got) > 0 {
			t.Errorf("at work after that: got %v, want nothing", got)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
