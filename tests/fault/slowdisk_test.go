package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/failpoint"
	"rideshare/internal/testkit/testenv"
)

const (
	// crowdSize writes are sent, one every crowdPace, without waiting for answers: a hundred for each slow commit.
	crowdSize = 600
	crowdPace = 10 * time.Millisecond
	// drainLimit is the time after which no write waits any more: their messages have expired at the broker, and the orchestrator has
	// read the queue's length again.
	drainLimit = 2*patience + 5*time.Second
)

// Each commit of persdb takes a second, as on a disk that is slow to sync: many writes share a commit, so that most writes of a
// crowd are executed. The others are refused in the documented way, the queues do not grow, and no read is refused. When the disk
// is fast again, the system works as before.
func TestPersdb_CommitsTakeASecond_QueuesAreBoundedAndReadsGoOn(t *testing.T) {
	t.Parallel()
	sys := startFailable(t, shared(t), 2, patient)
	sys.exec(t, "CREATE TABLE crowd(n INTEGER PRIMARY KEY)")
	l := startLoad(t, sys)
	persdb := sys.persdb(t)
	sys.failpoints.Arm(t, persdb, failpoint.PersdbBeforeCommit, failpoint.Slow)
	sys.failpoints.AwaitHit(t, persdb, failpoint.PersdbBeforeCommit)
	reads := l.reads.Load()
	awaitMore(t, "acknowledged writes", &l.acked, 2*writers)
	t.Logf("%d writes of the usual load were refused", l.writesRefused.Load())
	acked := l.crowd(t)
	if acked < crowdSize/2 {
		t.Errorf("%d of %d writes of the crowd were acknowledged, want half of them at least", acked, crowdSize)
	}
	testenv.Eventually(t, drainLimit, l.drained)
	if got, failed := l.reads.Load()-reads, l.readsFailed.Load(); got == 0 || failed > 0 {
		t.Errorf("%d reads were answered and %d refused while commits were slow, want some and none", got, failed)
	}
	sys.failpoints.Disarm(t, persdb, failpoint.PersdbBeforeCommit)
	l.awaitProgress(t)
	unknown := l.unknown.Load()
	if got, err := strconv.ParseInt(string(sys.rows(t, "SELECT count(*) FROM crowd")[0][0]), 10, 64); err != nil || got < acked || got > acked+unknown {
		t.Errorf("rows of the crowd: got %d, %v, want %d and at most %d more, whose outcome was not known", got, err, acked, unknown)
	}
	l.await(t, 2)
}

// crowd sends the writes of a crowd, waits for their answers, and returns how many were acknowledged.
func (l *load) crowd(t *testing.T) int64 {
	t.Helper()
	var all sync.WaitGroup
	var acked atomic.Int64
	for n := range crowdSize {
		all.Go(func() {
			a, err := l.sys.post(context.Background(), l.fail, "/db/execute", []any{[]any{"INSERT INTO crowd VALUES(?)", n}})
			switch {
			case err != nil:
				l.note("crowd", err)
			case a.status == http.StatusOK:
				acked.Add(1)
			default:
				l.note("crowd", l.refusal(a, &l.writesRefused))
			}
		})
		outlast(t, crowdPace)
	}
	all.Wait()
	t.Logf("%d of %d writes of the crowd were acknowledged", acked.Load(), crowdSize)
	return acked.Load()
}

// drained returns an error as long as more writes wait, in the orchestrator or at the broker, than the load has clients.
func (l *load) drained() error {
	waiting, err := l.sys.metric(l.sys.orchestrator, "rideshare_dispatch_waiting", `lane="write"`)
	queued, queueErr := l.sys.metric(l.sys.orchestrator, "rideshare_queue_messages", `queue="writeQ"`)
	if err = errors.Join(err, queueErr); err == nil && waiting+queued > writers {
		err = fmt.Errorf("%v writes wait to be sent and %v messages at the broker, want %d in all", waiting, queued, writers)
	}
	return err
}
