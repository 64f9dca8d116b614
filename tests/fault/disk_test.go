package fault_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// diskSize is twice the space that persdb reserves, and room for the database.
const diskSize = 128 << 20

// insertMiB inserts a row of one MiB.
const insertMiB = "INSERT INTO ballast(x) VALUES(zeroblob(1048576))"

// persdb's disk is full under load. Writes that need room are refused at once and the answer says why, reads are answered,
// deletes succeed, and a slave takes over from a killed master. With room again, all writes succeed without a restart, and
// nothing is lost or doubled.
func TestPersdb_DiskFull_GrowthRefusedUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	s := newSplit(t, shared(t), 2)
	s.env = []string{patient}
	disk := testenv.MemoryDisk(t, filepath.Join(s.dir, "data"), diskSize)
	s.startPersdb(t)
	s.startLauncher(t)
	o := s.startOrchestrator(t)
	o.exec(t, "CREATE TABLE ballast(n INTEGER PRIMARY KEY, x BLOB)", insertMiB, insertMiB)
	l := startLoad(t, o.system)
	before, alerts := o.awaitWhole(t, 2), o.watchAlerts(t)

	disk.Fill(t)
	awaitMore(t, "refused writes", &l.writesRefused, 8)
	o.refusedForRoom(t)
	alerts.Await(t, "RideshareDiskNearlyFull", "RideshareFull")
	awaitMore(t, "answered reads", &l.reads, 20)
	if reads, unknown := l.readsFailed.Load(), l.unknown.Load(); reads+unknown > 0 {
		t.Errorf("%d reads were refused and %d calls ended with 504, want none", reads, unknown)
	}
	o.exec(t, "DELETE FROM ballast WHERE n = 1")
	signal(t, before.pids("master")[0], syscall.SIGKILL)
	o.awaitNewMaster(t, before)
	o.exec(t, "DROP TABLE ballast")

	disk.Free(t)
	o.check(t, l)
	s.endParts(t, o)
	s.checkLog(t)
}

// refusedForRoom checks what the system says while persdb's disk is full: in the answer to a write that needs room, in
// readiness and in GET cluster.
func (o orchestrator) refusedForRoom(t *testing.T) {
	t.Helper()
	began := time.Now()
	a, err := o.try(t.Context(), http.MethodPost, "/db/execute", []string{insertMiB})
	took := time.Since(began)
	if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "persdb's disk is full") {
		t.Errorf("a write that needs room: got %d %v %.300s, %v, want 503 with Retry-After and the disk named", a.status, a.header, a.body, err)
	}
	if took > patience/2 {
		t.Errorf("a write that needs room was refused after %v, want at once", took)
	}
	a, err = o.try(t.Context(), http.MethodGet, "/readyz", nil)
	if err != nil || a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "room on persdb's disk") {
		t.Errorf("GET readyz: got %d %.300s, %v, want 503 and the disk named", a.status, a.body, err)
	}
	c, err := get[struct {
		Database struct {
			DiskFull bool `json:"disk_full"`
		}
	}](o.system, "/api/v1/cluster")
	if err != nil || !c.Database.DiskFull {
		t.Errorf("GET cluster: got %+v, %v, want disk_full", c, err)
	}
}

// persdb's disk turns read-only under load, as failing disks do: no write is acknowledged and reads are answered. persdb is
// killed and started again on a copy of the disk: the system is whole, nothing is lost or doubled.
func TestPersdb_DiskTurnsReadOnly_NothingAcknowledgedUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSplit(t, shared(t), 2)
	s.env = []string{unhurried}
	disk := testenv.FailingDisk(t, filepath.Join(s.dir, "data"), diskSize)
	s.startPersdb(t)
	s.startLauncher(t)
	o := s.startOrchestrator(t)
	l := startLoad(t, o.system)
	alerts := o.watchAlerts(t, `{outcome!~"ok|stale_epoch"}[5m]`, `{outcome!~"ok|stale_epoch"}[10s]`)

	disk.Fail(t)
	l.awaitReadsWithoutWrites(t)
	alerts.Await(t, "RideshareCommitsFail")
	acked := l.acked.Load()
	l.awaitReadsWithoutWrites(t)
	if reads, more := l.readsFailed.Load(), l.acked.Load()-acked; reads > 0 || more > 0 {
		t.Errorf("%d reads were refused and %d writes acknowledged, want none", reads, more)
	}
	killPart(t, s.persdbCmd)
	disk.Replace(t)
	s.startPersdb(t)
	o.check(t, l)
	s.endParts(t, o)
	s.checkLog(t)
}

// endParts ends an orchestrator and the parts that it works with, so that the test can read persdb's file.
func (s *split) endParts(t *testing.T, o orchestrator) {
	t.Helper()
	endPart(t, "orchestrator", o.cmd)
	endPart(t, "launcher", s.launcherCmd)
	endPart(t, "persdb", s.persdbCmd)
}
