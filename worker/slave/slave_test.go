package slave_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/mq"
	"rideshare/worker/slave"
)

// A frame that cannot be decoded is rejected, and the messages behind it are served.
func TestSlave_Run_UndecodableIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, source := newBus(), newSource(1)
		exec := newExecutor(source, bus)
		s := slave.New(bus, source, exec, slog.New(slog.DiscardHandler))
		stop, done := make(chan struct{}), make(chan error)
		go func() { done <- s.Run(t.Context(), stop, func(bool) {}) }()
		bad := &fakeDelivery{message: mq.Message{Body: []byte("nonsense")}}
		good, _ := request(t, read("a", time.Second))
		bus.deliveries <- bad
		bus.deliveries <- good
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if bad.rejected != 1 || bad.acked != 0 || good.acked != 1 || exec.Stats.Rejected.Load() != 1 {
			t.Errorf("got bad rejected=%d acked=%d, good acked=%d", bad.rejected, bad.acked, good.acked)
		}
	})
}

// After stop the pending reads are answered before Run returns.
func TestSlave_Run_StopFinishesWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, source := newBus(), newSource(1)
		s := slave.New(bus, source, newExecutor(source, bus), slog.New(slog.DiscardHandler))
		stop, done := make(chan struct{}), make(chan error)
		go func() { done <- s.Run(t.Context(), stop, func(bool) {}) }()
		d, _ := request(t, read("slow 300 ms", time.Second))
		bus.deliveries <- d
		close(stop)
		if err := <-done; err != nil || d.acked != 1 {
			t.Errorf("got %v and acked %d, want nil and 1", err, d.acked)
		}
		if bus.consuming() != 0 {
			t.Error("still consuming after Run has returned")
		}
	})
}

// A slave does not consume before its replica may be read, nor after its replica was discarded.
func TestSlave_Run_ConsumesOnlyWhileReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, source := newBus(), newSource(1)
		source.set(0, false)
		s := slave.New(bus, source, newExecutor(source, bus), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		serving := false
		go func() { done <- s.Run(ctx, nil, func(on bool) { serving = on }) }()
		for i, ready := range []bool{false, true, false, true} {
			source.set(1, ready)
			synctest.Wait()
			if got := bus.consuming() == 1; got != ready || serving != ready {
				t.Errorf("step %d: got consuming=%t serving=%t, want %t", i, got, serving, ready)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context canceled", err)
		}
	})
}
