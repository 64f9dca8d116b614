package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
)

// counting is a coordinator that counts registrations. It has one session.
type counting struct {
	coord.Session
	registrations int
}

func (c *counting) Open(context.Context) (coord.Session, error)      { return c, nil }
func (c *counting) Suspended() <-chan struct{}                       { return nil }
func (c *counting) Unregister(context.Context, coord.Member) error   { return nil }
func (c *counting) Close() error                                     { return nil }
func (c *counting) Register(_ context.Context, _ coord.Member) error { c.registrations++; return nil }

// However fast the position advances, a worker writes it to the coordinator once in every refresh. So 300 workers
// write at most 100 times a second.
func TestRegistrar_WritesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers, minute = 300, time.Minute
		began := time.Now()
		k := &counting{}
		r := newRegistrar(&Config{
			Coordinator: k, Log: slog.New(slog.DiscardHandler), RegisterRetry: defaultRegisterRetry, RegisterRefresh: defaultRegisterRefresh,
		}, func() dbaas.Seq { return dbaas.Seq(time.Since(began).Microseconds()) })
		r.announce(coord.Member{PID: 1, Worker: "w1", Role: dbaas.RoleSlave})
		ctx, cancel := context.WithTimeout(t.Context(), minute)
		defer cancel()
		r.run(ctx)
		perSecond := float64(k.registrations-1) * workers / minute.Seconds() // the first announces the worker
		if perSecond > 100 || k.registrations < 2 {
			t.Errorf("got %d registrations in a minute, %.0f in a second from %d workers, want at most 100", k.registrations, perSecond, workers)
		}
	})
}
