package worker

import (
	"context"
	"errors"
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

// doubtful is a coordinator that does one registration and loses the answer.
type doubtful struct {
	counting
	node coord.Member // what is registered
	lose bool         // the next answer
}

func (d *doubtful) Open(context.Context) (coord.Session, error) { return d, nil }

func (d *doubtful) Register(_ context.Context, m coord.Member) error {
	d.node = m
	if d.lose {
		d.lose = false
		return errors.New("no answer")
	}
	return nil
}

// A registration without an answer may have been done. If the worker's state is back by the next try, it is registered
// again: the coordinator would otherwise keep the state in between.
func TestRegistrar_LostAnswer_StateInBetweenDoesNotStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &doubtful{}
		r := newRegistrar(&Config{
			Coordinator: d, Log: slog.New(slog.DiscardHandler), RegisterRetry: time.Second, RegisterRefresh: time.Hour,
		}, func() dbaas.Seq { return 7 })
		r.announce(coord.Member{PID: 1, Worker: "w1", Role: dbaas.RoleSlave})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			r.run(ctx)
			close(ended)
		}()
		synctest.Wait()
		d.lose = true
		r.replica(true, true)
		synctest.Wait()
		if !d.node.NoReplica {
			t.Fatal("the loss of the replica is not registered")
		}
		r.replica(false, false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if d.node.NoReplica {
			t.Errorf("registered %+v, want a replica", d.node)
		}
		cancel()
		<-ended
	})
}

// listing is a coordinator with one other member than w1.
type listing struct {
	counting
	other coord.Member
}

func (l *listing) Members(context.Context) ([]coord.Member, error) {
	return []coord.Member{{Worker: "w1", Role: dbaas.RoleSlave, Applied: 9}, l.other}, nil
}

// Only a slave that can serve reads is ahead: for any other the last readable file must not be dropped.
func TestRegistrar_Ahead_OnlySlavesThatServeReads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		other coord.Member
		want  bool
	}{
		"Serves":       {coord.Member{Role: dbaas.RoleSlave, Applied: 8}, true},
		"SamePosition": {coord.Member{Role: dbaas.RoleSlave, Applied: 7}, false},
		"Master":       {coord.Member{Role: dbaas.RoleMaster, Applied: 8}, false},
		"Leaving":      {coord.Member{Role: dbaas.RoleSlave, Applied: 8, Leaving: true}, false},
		"BusLost":      {coord.Member{Role: dbaas.RoleSlave, Applied: 8, BusLost: true}, false},
		"NoReplica":    {coord.Member{Role: dbaas.RoleSlave, Applied: 8, NoReplica: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistrar(&Config{}, nil)
			r.announce(coord.Member{PID: 1, Worker: "w1", Role: dbaas.RoleSlave})
			tc.other.Worker = "w2"
			r.use(&listing{other: tc.other})
			if got := r.ahead(t.Context(), 7); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
