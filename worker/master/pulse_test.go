package master_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/mqtest"
)

// working returns the parts of the master that are at work.
func (r *running) working() []string {
	return slices.Sorted(maps.Keys(r.steps()))
}

// steps returns them with their steps.
func (r *running) steps() map[string]uint64 {
	working := map[string]uint64{}
	r.Pulse.AddWorking(working)
	return working
}

// A master that waits is at rest, whatever it waits for: messages, a persdb that is slow or away, a broker that does not
// confirm.
func TestMaster_Pulse_WaitingIsRest(t *testing.T) {
	for name, trouble := range map[string]func(r *running){
		"Nothing":     func(*running) {},
		"PersdbSlow":  func(r *running) { r.store.took = 3 * time.Second },
		"PersdbAway":  func(r *running) { r.store.setAway(true) },
		"BrokerHangs": func(r *running) { r.bus.hang = true },
		"BrokerSlow":  func(r *running) { r.bus.slow = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(1))
				trouble(r)
				for i := range 5 {
					r.bus.send(t, string(rune('a'+i)), op(byte(i+1), time.Minute))
				}
				for range 20 {
					synctest.Wait()
					if got := r.working(); len(got) > 0 {
						t.Fatalf("at work: got %v, want nothing", got)
					}
					<-time.After(100 * time.Millisecond)
				}
				r.cancel()
				if err := <-r.done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		})
	}
}

// A master that is stuck names the part, whose steps stay the same.
func TestMaster_Pulse_StuckPartIsNamed(t *testing.T) {
	for part, stick := range map[string]func(t *testing.T, r *running, until <-chan struct{}){
		"taking": func(t *testing.T, r *running, until <-chan struct{}) {
			t.Helper()
			r.bus.deliveries <- mqtest.StuckDelivery{Delivery: r.bus.message(t, "x", op(1, time.Minute)), Until: until}
		},
		"committing": func(t *testing.T, r *running, until <-chan struct{}) {
			t.Helper()
			r.replica.stuck = until
			r.bus.send(t, "x", op(1, time.Minute))
		},
	} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, until := start(t, newStore(1)), make(chan struct{})
				stick(t, r, until)
				synctest.Wait()
				before := r.steps()
				<-time.After(time.Second)
				if after := r.steps(); len(after) != 1 || after[part] == 0 || !maps.Equal(before, after) {
					t.Errorf("at work: got %v, then %v, want %s with the same steps", before, after, part)
				}
				close(until)
				synctest.Wait()
				if got := r.working(); len(got) > 0 {
					t.Errorf("at work after that: got %v, want nothing", got)
				}
				if err := r.finish(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A master that waits for the broker to take a rejected read is at rest.
func TestMaster_Pulse_RejectingAReadIsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, until := start(t, newStore(1)), make(chan struct{})
		r.bus.linear <- mqtest.SlowToReject{Until: until}
		synctest.Wait()
		if got := r.working(); len(got) > 0 || r.Stats.Rejected.Load() != 1 {
			t.Errorf("at work: got %v after %d rejections, want nothing after one", got, r.Stats.Rejected.Load())
		}
		close(until)
		synctest.Wait()
		if got := r.working(); len(got) > 0 {
			t.Errorf("at work after that: got %v, want nothing", got)
		}
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	})
}
