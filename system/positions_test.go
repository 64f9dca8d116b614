package system

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
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

func (hung) Sizes(ctx context.Context) (dbaas.Sizes, error) {
	<-ctx.Done()
	return dbaas.Sizes{}, ctx.Err()
}

// answering is a persdb that answers with one head.
type answering struct {
	persdb

	head dbaas.Head
}

func (s answering) Head(context.Context) (dbaas.Head, error) { return s.head, nil }

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

// A scrape of the metrics does not wait long for a persdb that hangs: the other metrics would be lost with it.
func TestStoreMetrics_PersdbHangs_ScrapeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for _, m := range StoreMetrics(hung{calls: &atomic.Int64{}}) {
			m.Read(func(float64, ...string) { t.Errorf("%s: got a value of a persdb that hangs", m.Name) })
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("got an end after %v", took)
		}
	})
}

// While persdb does not answer, the cluster is shown with the last known epoch and head, and with their age. Before persdb
// has answered once, neither is known.
func TestOverview_PersdbHangs_LastKnownEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head := dbaas.Head{Cluster: dbaas.ClusterID{1}, Seq: 7, Epoch: 3}
		c := &orchestratorParts{backends: &backends{store: hung{calls: &atomic.Int64{}}, launcher: nobody{}}}
		check := func(when string, cluster dbaas.ClusterID, epoch dbaas.Epoch, seq dbaas.Seq, age int64) {
			t.Helper()
			got := overview(control.Status{}, c.positions(), time.Now())
			if got.Cluster != cluster || got.Epoch != epoch || got.Head != seq || got.HeadAgeMS != age {
				t.Errorf("%s: got cluster %s, epoch %d, head %d, %d ms old; want %s, %d, %d, %d", when, got.Cluster, got.Epoch, got.Head, got.HeadAgeMS, cluster, epoch, seq, age)
			}
		}
		check("never known", dbaas.ClusterID{}, 0, 0, 0)
		c.store = answering{head: head}
		check("answers", head.Cluster, 3, 7, 0)
		time.Sleep(10 * time.Second)
		c.store = hung{calls: &atomic.Int64{}}
		check("hangs", dbaas.ClusterID{}, 3, 7, (10*time.Second + positionsTimeout).Milliseconds())
		c.store = answering{head: head}
		check("answers again", head.Cluster, 3, 7, 0)
	})
}
