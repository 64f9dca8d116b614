package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
)

// The persdb of a running system is replaced by another persdb, whose log may be shorter or longer. Workers and orchestrator stay,
// replicas become equal to the new persdb, and reads and writes are answered. No answer mixes rows of both, and none has rows of
// the old persdb once X-Cluster-Id names the new one.
func TestSwap_OtherDataFolder_HistoriesDoNotMix(t *testing.T) {
	t.Parallel()
	on := shared(t)
	for name, entries := range map[string]int{"Shorter": 20, "Longer": 400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSplit(t, on, 2)
			makeHistory(t, filepath.Join(s.dir, "data"), "old", 100, 9)
			makeHistory(t, filepath.Join(s.dir, "other"), "new", entries, 2)
			s.startPersdb(t)
			s.startLauncher(t)
			o := s.startOrchestrator(t)
			handOver(t, o.system) // so that a slave has been master of the old cluster
			before := o.cluster(t).ID
			ctx, cancel := context.WithCancel(t.Context())
			reading := make(chan error, 1)
			go func() { reading <- o.readHistories(ctx, before) }()

			killPart(t, s.persdbCmd)
			if err := errors.Join(os.Rename(filepath.Join(s.dir, "data"), filepath.Join(s.dir, "was")),
				os.Rename(filepath.Join(s.dir, "other"), filepath.Join(s.dir, "data"))); err != nil {
				t.Fatal(err)
			}
			s.startPersdb(t)

			testenv.Eventually(t, healLimit, func() error {
				a, err := o.try(t.Context(), http.MethodPost, "/db/execute", []string{"INSERT INTO history VALUES('new')"})
				if err != nil || a.status != http.StatusOK || a.header.Get("X-Cluster-Id") == before {
					return fmt.Errorf("write: got %d %.200s of cluster %s, %w", a.status, a.body, a.header.Get("X-Cluster-Id"), err)
				}
				return nil
			})
			if rows := o.rows(t, "SELECT count(*) > 0 FROM history WHERE name='old'"); string(rows[0][0]) != "0" {
				t.Error("after the first write: there are rows of the old history")
			}
			o.awaitWhole(t, 2)
			o.checkReplicas(t, 2)
			cancel()
			if err := <-reading; err != nil {
				t.Error(err)
			}
		})
	}
}

// makeHistory makes a data folder. Its table history has that many rows with the name, one log entry each, and the newest epoch is
// the given one.
func makeHistory(t *testing.T, dir, name string, entries, epoch int) {
	t.Helper()
	s, err := commitlog.Open(t.Context(), commitlog.Config{Dir: dir, Schema: rideschema.Create(), Protected: rideschema.Protected()})
	if err != nil {
		t.Fatal(err)
	}
	for range epoch - 1 {
		storetest.Claim(t, s)
	}
	newest := storetest.Claim(t, s)
	storetest.Commit(t, s, newest, storetest.Op(0, "CREATE TABLE history(name TEXT)"))
	for n := range entries {
		storetest.Commit(t, s, newest, storetest.Op(n+1, "INSERT INTO history VALUES('"+name+"')"))
	}
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
}

// readHistories reads until ctx ends and returns the answers that are not allowed.
func (o orchestrator) readHistories(ctx context.Context, old string) error {
	for ctx.Err() == nil {
		a, err := o.try(ctx, http.MethodPost, "/db/query?level=none", []string{"SELECT DISTINCT name FROM history"})
		if err != nil || a.status != http.StatusOK {
			continue
		}
		has := func(name string) bool { return strings.Contains(string(a.body), `"`+name+`"`) }
		if has("old") == has("new") || has("old") && a.header.Get("X-Cluster-Id") != old {
			return fmt.Errorf("cluster %s answers %s; before the swap it was %s", a.header.Get("X-Cluster-Id"), a.body, old)
		}
	}
	return nil
}
