package replica_test

import (
	"fmt"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/internal/wire"
)

// The refusal of a page shows that persdb went back in time: the replica throws its file away without asking for the head.
func TestReplica_CatchUp_RefusedBeyondHeadIsFuture(t *testing.T) {
	store := workertest.NewStore(t, schema)
	last := fill(store, 1, 3)[2]
	l := bound(t, store, nil)
	l.reaches(3)
	heads := store.Calls("head")
	l.broadcast(dbaas.Entry{Cluster: last.Cluster, Seq: 4, Epoch: last.Epoch}) // persdb does not have it
	l.reaches(4)
	l.Subscriber().Gap()
	l.reaches(3)
	l.equals(store)
	if diverged, asked := l.Stats.Diverged.Load(), store.Calls("head")-heads; diverged != 1 || asked != 0 {
		t.Errorf("got %d files thrown away and %d heads asked, want 1 and 0", diverged, asked)
	}
}

// A frame that is cut or lengthened, at any byte, is dropped and counted. The next entry makes the replica read the log.
func TestReplica_Offer_ChangedFrameIsDropped(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	frame, err := wire.EncodeEntry(store.Write(insert(1)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range frame {
		l.Offer(frame[:n:n])
	}
	l.Offer(append(slices.Clip(frame), 0))
	testenv.Eventually(t, limit, func() error {
		if got := l.Stats.Malformed.Load(); got != int64(len(frame)+1) {
			return fmt.Errorf("%d malformed frames, want %d", got, len(frame)+1)
		}
		return nil
	})
	if got, _ := l.Applied(); got.Seq != 0 {
		t.Errorf("got position %d, want 0", got.Seq)
	}
	l.broadcast(store.Write(insert(2)))
	l.reaches(2)
	l.equals(store)
}
