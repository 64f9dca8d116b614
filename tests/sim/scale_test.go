package sim_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	mqinproc "rideshare/internal/mq/inproc"
	"rideshare/orchestrator/dispatch"
	"rideshare/worker/slave"
)

// core is a slave's replica on a machine with one core, which executes one read at a time. Each read occupies the core
// for readWork, as in `rideshare bench scale`, where a read needs a millisecond of a tenth of a core.
type core struct {
	busy chan struct{} // has room for the one read that runs
	pace func()
}

const (
	readWork = 10 * time.Millisecond
	stepWork = readWork / 20
)

func (c *core) Applied() (dbaas.Head, bool)                      { return dbaas.Head{}, true }
func (c *core) WaitApplied(context.Context, dbaas.Head) error    { return nil }
func (c *core) Serving(context.Context) (<-chan struct{}, error) { return nil, nil }
func (c *core) Reader() (slave.Reader, error)                    { return &core{busy: c.busy}, nil }
func (c *core) Cluster() dbaas.ClusterID                         { return dbaas.ClusterID{} }
func (c *core) Seq() dbaas.Seq                                   { return 0 }
func (c *core) Pace(pace func())                                 { c.pace = pace }
func (c *core) Close()                                           {}

func (c *core) Read(ctx context.Context, _ *dbaas.Read) dbaas.ReadResult {
	for range readWork / stepWork {
		c.pace()
		if ctx.Err() != nil {
			return dbaas.ReadResult{Code: dbaas.CodeTimeout}
		}
		c.busy <- struct{}{}
		<-time.After(stepWork)
		<-c.busy
	}
	return dbaas.ReadResult{}
}

// serving is an availability that reports that many slaves.
type serving int

func (s serving) Slaves() (int, time.Time)            { return int(s), time.Time{} }
func (s serving) Master() (bool, time.Time)           { return true, time.Time{} }
func (s serving) Gone(dbaas.WorkerID, time.Time) bool { return false }

// answered returns how many slow reads that many slaves answer in half a minute, with 16 clients for each slave.
func answered(t *testing.T, slaves int) int64 {
	t.Helper()
	var count atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var parts, clients sync.WaitGroup
		broker := mqinproc.NewBroker(mqinproc.Config{})
		for i := range slaves {
			conn, source, log := broker.Dial(strconv.Itoa(i)), &core{busy: make(chan struct{}, 1)}, slog.New(slog.DiscardHandler)
			exec := slave.NewExecutor(slave.Config{Source: source, Bus: conn, Log: log, Fast: 2})
			parts.Go(func() { _ = slave.New(conn, source, exec, log).Run(ctx, nil, func(bool) {}) }) // returns ctx's error
		}
		conn := broker.Dial("orchestrator")
		caller := mq.NewCaller(conn)
		parts.Go(func() { _ = caller.Run(ctx) }) // returns ctx's error
		d := dispatch.New(dispatch.Config{Caller: caller, Availability: serving(slaves)})
		begin := time.Now()
		for range 16 * slaves {
			clients.Go(func() {
				for time.Since(begin) < 30*time.Second {
					if _, err := d.Read(ctx, dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: "slow"}}}); err != nil {
						t.Error(err)
					}
					count.Add(1)
				}
			})
		}
		clients.Wait()
		_ = d.Close(ctx) // nothing is left
		cancel()
		parts.Wait()
	})
	return count.Load()
}

// Four slaves answer at least 3.6 times as many slow reads as one, and eight 7 times as many.
func TestSystem_MoreSlaves_AnswerMoreSlowReads(t *testing.T) {
	one := answered(t, 1)
	for slaves, want := range map[int]float64{4: 3.6, 8: 7} {
		if got := answered(t, slaves); float64(got) < want*float64(one) {
			t.Errorf("%d slaves answered %d reads, one answered %d: want %.1f times as many", slaves, got, one, want)
		} else {
			t.Logf("%d slaves answered %.2f times as many as one, which answered %d", slaves, float64(got)/float64(one), one)
		}
	}
}
