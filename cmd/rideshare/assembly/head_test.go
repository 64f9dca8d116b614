package assembly

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
)

// headStore answers with its head once it has one.
type headStore struct{ seq atomic.Uint64 }

func (s *headStore) Head(context.Context) (dbaas.Head, error) {
	if s.seq.Load() == 0 {
		return dbaas.Head{}, errors.New("persdb is away")
	}
	return dbaas.Head{Seq: dbaas.Seq(s.seq.Load())}, nil
}

func TestFollowHead_EarlierLifeAndOthersWrites_AreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &headStore{}
		var seen atomic.Uint64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go followHead(ctx, store, func(s dbaas.Seq) { seen.Store(uint64(s)) })

		synctest.Wait()
		if seen.Load() != 0 {
			t.Fatalf("told of %d though persdb did not answer", seen.Load())
		}
		for _, head := range []uint64{7, 9} { // an earlier life's, then another orchestrator's
			store.seq.Store(head)
			time.Sleep(headPeriod)
			synctest.Wait()
			if seen.Load() != head {
				t.Fatalf("told of %d after a period, want persdb's head %d", seen.Load(), head)
			}
		}
	})
}
