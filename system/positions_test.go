package system

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// hung is a persdb that takes connections and does not answer.
type hung struct {
	persdb

	calls *atomic.Int64
}

func (s hung) Head(ctx context.Context) (dbaas.Head, error) {
	s.calls.Add(1)
	<-ctx.Done()
	return dbaas.Head{}, ctx.Err()
}

// nobody is a launcher that does not answer.
type nobody struct{ launch.Launcher }

func (nobody) List(context.Context) ([]launch.Instance, error) { return nil, errors.New("away") }

// While persdb hangs, callers share a measurement, however many they are.
func TestPositions_PersdbHangs_CallersShareTheWait(t *testing.T) {
	calls := &atomic.Int64{}
	c := &orchestratorParts{backends: &backends{store: hung{calls: calls}, launcher: nobody{}}}
	const all = 40
	var callers sync.WaitGroup
	for range all {
		callers.Go(func() { c.positions() })
	}
	callers.Wait()
	if n := calls.Load(); n > all/4 {
		t.Errorf("%d callers at once made %d questions to persdb, want few", all, n)
	}
}
