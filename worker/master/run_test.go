package master_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/worker/master"
)

// running is a Master under test.
type running struct {
	*master.Master
	bus     *fakeBus
	store   *fakeStore
	replica *fakeReplica
	reads   *fakeReads
	stop    chan struct{}
	done    chan error
	cancel  context.CancelFunc
}

func start(tb testing.TB, store *fakeStore) *running {
	tb.Helper()
	r := &running{
		bus: newBus(), store: store, replica: &fakeReplica{caughtUp: make(chan struct{})}, reads: &fakeReads{},
		stop: make(chan struct{}), done: make(chan error, 1),
	}
	r.Master = master.New(master.Config{
		Store: store, Bus: r.bus, Replica: r.replica, Reads: r.reads, Log: slog.New(slog.DiscardHandler), Epoch: store.head.Epoch,
	})
	ctx, cancel := context.WithCancel(tb.Context())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx, r.stop) }()
	return r
}

// finish stops the Master gracefully and returns what Run did.
func (r *running) finish() error {
	close(r.stop)
	err := <-r.done
	r.cancel()
	return err
}

// end ends the Master with its context.
func (r *running) end(tb testing.TB) {
	tb.Helper()
	r.cancel()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		tb.Errorf("got %v, want context canceled", err)
	}
}

// fakeReads records the positions that reads are served at.
type fakeReads struct {
	mu     sync.Mutex
	minSeq []dbaas.Seq
}

func (r *fakeReads) Serve(_ context.Context, d mq.Delivery, req wire.ReadRequest) {
	r.mu.Lock()
	for i := range req.Reads {
		r.minSeq = append(r.minSeq, req.Reads[i].MinSeq)
	}
	r.mu.Unlock()
	_ = d.Ack()
}
