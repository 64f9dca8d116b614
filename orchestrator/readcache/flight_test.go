package readcache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/readcache"
)

// A read that must see a write does not join a flight that began before the write.
func TestCache_FlightFromBeforeAWrite_IsNotJoined(t *testing.T) { synctest.Test(t, flightBeforeWrite) }

func flightBeforeWrite(t *testing.T) {
	var calls atomic.Int64
	block := make(chan struct{})
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		result, err := m.ask(ctx, r)
		if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
			<-block // with the answer from before the write
		}
		return result, err
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss) // the statement is known
	var leader sync.WaitGroup
	leader.Go(func() { _, _ = c.Read(context.Background(), read(7)) }) // its answer is not what is tested.
	await(t, func() bool { return calls.Load() == 1 })
	seq := m.change(7)
	answered := make(chan dbaas.ReadResult, 1)
	go func() {
		result, _ := c.Read(context.Background(), read(7))
		answered <- result
	}()
	synctest.Wait()
	select {
	case result := <-answered:
		if got, want := string(result.Body), m.want(7, seq); result.Level != dbaas.LevelMiss || result.Seq < seq || got != want {
			t.Errorf("got %s at %d, %s, want a miss with %s at %d", got, result.Seq, result.Level, want, seq)
		}
	default:
		t.Error("the read waits for the flight from before the write")
	}
	close(block)
	leader.Wait()
}
