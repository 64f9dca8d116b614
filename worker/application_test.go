package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker"
)

// With the application's tables: rows, cascades and schema changes that a master committed are equal to persdb's on a
// slave that followed and on one that started late from a trimmed log.
func TestWorker_ApplicationTables_SlavesEqualPersdb(t *testing.T) {
	c := newCluster(t, 0)
	c.store = workertest.NewStore(t)
	comparing := func(w *worker.Config) {
		w.Replica.AntiEntropy, w.Replica.VerifyEvery = 50*time.Millisecond, time.Millisecond
	}
	follower := c.slave(2, comparing)
	m := c.master(1, comparing)
	var seq dbaas.Seq
	for i := range 8 {
		for _, sql := range []string{
			fmt.Sprintf("INSERT INTO users(username, password) VALUES('u%d', hex(randomblob(8)))", i),
			fmt.Sprintf("INSERT INTO rides(created_by, timestamp, source, destination) VALUES('u%d', datetime('now'), 1, 2)", i),
			fmt.Sprintf("DELETE FROM users WHERE username='u%d'", i-3),
			fmt.Sprintf("CREATE TABLE t%d (k INTEGER PRIMARY KEY)", i),
			"INSERT INTO absent VALUES (1)",
		} {
			r, werr := c.write(t.Context(), operation(dbaas.Statement{SQL: sql}))
			if werr != nil || r[0].Code != dbaas.CodeOK {
				t.Fatalf("%s: %+v, %v", sql, r, werr)
			}
			seq = max(seq, r[0].Seq)
		}
	}
	c.store.Trim()
	late := c.slave(3, comparing)
	read := query("SELECT count(*) AS c FROM users", seq)
	if got := c.mustRead(mq.ReadQ, read)[0]; string(got.Body) != `[{"c":3}]` || got.Seq < seq {
		t.Errorf("got %s at %d, want 3 users at %d", got.Body, got.Seq, seq)
	}
	want, err := c.store.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{m, follower, late} {
		testenv.Eventually(t, limit, func() error {
			got, err := n.Hashes(t.Context())
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				err = fmt.Errorf("%s: hashes (-persdb +replica):\n%s", n.id, diff)
			}
			return err
		})
		if d := n.Status().Counters["diverged"]; d != 0 {
			t.Errorf("%s: diverged %d times, want 0", n.id, d)
		}
	}
}
