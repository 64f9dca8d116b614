package fault_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

// effects is a query for the name of each write that had its effect, and for the counter. A single statement sees one state,
// although a write that was given up may still take effect.
const effects = "SELECT name, (SELECT n FROM counter) FROM effects"

// checkEffects checks that every acknowledged write had its effect, that none had it twice, that no refused write had one,
// and that the counter equals the number of rows.
func (l *load) checkEffects(t *testing.T) {
	t.Helper()
	found, counter := map[string]int{}, 0
	for _, row := range l.sys.rows(t, effects) {
		var name string
		if err := errors.Join(json.Unmarshal(row[0], &name), json.Unmarshal(row[1], &counter)); err != nil {
			t.Fatal(err)
		}
		found[name]++
	}
	if err := l.ledger.Compare(found, counter); err != nil {
		t.Error(err)
	}
}

// checkFile is checkEffects for the tables that persdb left.
func (l *load) checkFile(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.sys.dir, "data", commitlog.FileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), effects)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	found, counter := map[string]int{}, 0
	for rows.Next() {
		var name string
		if err = rows.Scan(&name, &counter); err != nil {
			t.Fatal(err)
		}
		found[name]++
	}
	if err = errors.Join(rows.Err(), l.ledger.Compare(found, counter)); err != nil {
		t.Error(err)
	}
}

// checkReplicas waits until every worker's tables are equal to persdb's, at the same position.
func (s *system) checkReplicas(t *testing.T, slaves int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		pids := s.cluster(t).all()
		if len(pids) != slaves+1 {
			return fmt.Errorf("workers: got %v, want %d", pids, slaves+1)
		}
		for _, pid := range pids {
			want, err := s.hashes(t, pid, "--persdb-url", "/v1/hashes")
			if err != nil {
				return err
			}
			got, err := s.hashes(t, pid, "--control-url", "/hashes")
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("worker %d (-persdb +replica):\n%s", pid, diff)
			}
		}
		return nil
	})
}

// hashes asks for the hashes of the tables at the address that is the value of a flag on a worker's command line.
func (s *system) hashes(t *testing.T, pid int, flag, path string) (dbaas.TableHashes, error) {
	t.Helper()
	base, err := settingOf(s.host(pid), flag)
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	a, err := s.send(req)
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	var h dbaas.TableHashes
	if a.status != http.StatusOK {
		return h, fmt.Errorf("GET %s: got %d %.200s, want 200", path, a.status, a.body)
	}
	if err = json.Unmarshal(a.body, &h); err == nil && len(h.Tables) == 0 {
		err = fmt.Errorf("GET %s: got %s, want hashes", path, a.body)
	}
	return h, err
}

// checkLog reads the files that persdb left: they are not damaged, the log has no gap, its epochs never decrease, and no
// operation is in it twice.
func (s *system) checkLog(t *testing.T) {
	t.Helper()
	storetest.Witness(t, filepath.Join(s.dir, "data", commitlog.FileName))
	log := filepath.Join(s.dir, "data", commitlog.LogFileName)
	storetest.WitnessLog(t, log)
	db, err := sql.Open("sqlite", "file:"+log+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT seq, epoch, ops FROM rs_log ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	found := map[dbaas.OpID]dbaas.Seq{}
	var last dbaas.Epoch
	next := dbaas.Seq(1)
	for ; rows.Next(); next++ {
		var seq dbaas.Seq
		var epoch dbaas.Epoch
		var ops []byte
		if err = rows.Scan(&seq, &epoch, &ops); err != nil {
			t.Fatal(err)
		}
		if seq != next || epoch < last {
			t.Fatalf("the log has entry %d of epoch %d where %d of at least %d is next", seq, epoch, next, last)
		}
		last = epoch
		noteOperations(t, found, seq, ops)
	}
	if err = rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations in %d entries, the last of epoch %d", len(found), next-1, last)
}

func noteOperations(t *testing.T, found map[dbaas.OpID]dbaas.Seq, seq dbaas.Seq, ops []byte) {
	t.Helper()
	records, err := wire.DecodeRecords(ops)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if before, ok := found[r.Result.ID]; ok {
			t.Errorf("operation %v is in entries %d and %d", r.Result.ID, before, seq)
		}
		found[r.Result.ID] = seq
	}
}
