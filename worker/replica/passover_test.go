package replica_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker/replica"
)

// withLarge is a persdb that never finishes a part with rows of table large, and that is away for a while. If crowded is
// set, it finishes the part, but the WAL of that replica has grown too large by then.
type withLarge struct {
	inParts

	back    time.Time
	crowded *atomic.Pointer[replica.Replica]
}

func (s withLarge) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	p, err := s.inParts.HashPart(ctx, from)
	if p.Tables["large"] == "" {
		return p, err
	}
	if r := s.crowded.Load(); r != nil {
		r.EndReaders()
		return p, err
	}
	<-ctx.Done()
	return dbaas.HashPart{}, dbaas.ErrUnavailable
}

func (s withLarge) Head(ctx context.Context) (dbaas.Head, error) {
	if time.Now().Before(s.back) {
		return dbaas.Head{}, dbaas.ErrUnavailable
	}
	return s.inParts.Head(ctx)
}

// verifying starts a replica of tables large and n that compares itself periodically. The returned function counts the
// tables that were passed over according to its log.
func verifying(t *testing.T, away time.Duration, crowded bool) (*workertest.Store, *live, func() int) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	store := workertest.NewStore(t, "CREATE TABLE large (k TEXT PRIMARY KEY) WITHOUT ROWID", schema)
	store.Write(dbaas.Statement{SQL: "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c LIMIT 300) INSERT INTO large SELECT i FROM c"})
	fill(store, 2, 20)
	persdb := withLarge{inParts{store}, time.Now().Add(away), &atomic.Pointer[replica.Replica]{}}
	l := bound(t, persdb, func(c *replica.Config) {
		c.VerifyEvery, c.VerifyTimeout = 100*time.Millisecond, 50*time.Millisecond
		c.Log = slog.New(slog.NewTextHandler(out, nil))
	})
	l.reaches(20)
	if crowded {
		persdb.crowded.Store(l.Replica)
	}
	return store, l, func() int {
		lines, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(lines), "level=WARN")
	}
}

// A table WITHOUT ROWID that cannot be hashed in time does not keep the tables after it from being compared, in this
// round and in later ones. The log says so once.
func TestReplica_Run_PassesOverATableThatTakesTooLong(t *testing.T) {
	for name, crowded := range map[string]bool{"NoTime": false, "NoRoomInTheWAL": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { passesOver(t, crowded) })
		})
	}
}

func passesOver(t *testing.T, crowded bool) {
	t.Helper()
	store, l, passed := verifying(t, 0, crowded)
	testenv.Eventually(t, repairLimit, func() error {
		if v, e := l.Stats.Verified.Load(), l.Stats.VerifyErrors.Load(); v < 4 || e < 6 {
			return fmt.Errorf("%d parts compared, %d failed; want three rounds", v, e)
		}
		return nil
	})
	l.alter("UPDATE n SET v='other' WHERE i=20")
	l.repaired(20)
	l.equals(store)
	if got := passed(); got != 1 {
		t.Errorf("got %d warnings, want 1", got)
	}
}

// While persdb does not answer, every part fails, and none is passed over.
func TestReplica_Run_PersdbAway_PassesOverNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, passed := verifying(t, repairLimit, false)
		testenv.Eventually(t, repairLimit, func() error {
			if e := l.Stats.VerifyErrors.Load(); e < 10 {
				return fmt.Errorf("%d comparisons failed, want 10", e)
			}
			return nil
		})
		if got := passed(); got != 0 {
			t.Errorf("got %d warnings, want none", got)
		}
	})
}
