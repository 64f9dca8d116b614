package fault_test

import (
	"database/sql"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/testkit/promtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
)

// watchAlerts starts a Prometheus beside the system and its present workers. limits are those of promtest.Watch.
func (s *system) watchAlerts(t *testing.T, limits ...string) *promtest.Alerts {
	t.Helper()
	workers := s.cluster(t).all()
	persdb, err := settingOf(workers[0], "--persdb-url")
	parts := []string{s.orchestrator, persdb}
	for _, pid := range workers {
		worker, workerErr := settingOf(pid, "--control-url")
		parts, err = append(parts, worker), errors.Join(err, workerErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return promtest.Watch(t, filepath.Join("..", "..", "deploy", "prometheus"), parts, limits...)
}

// Alerts fire while the archive's folder is missing, when another persdb writes the archive, and when the database is full. The
// tests of other faults check the alerts of those faults.
func TestAlerts_ArchiveAndDatabase(t *testing.T) {
	t.Parallel()
	s := newSplit(t, shared(t), 1)
	folder := filepath.Join(s.dir, "archive")
	s.env = []string{
		"ARCHIVE_URL=file://" + folder, "ARCHIVE_EVERY=100ms", "ARCHIVE_SNAPSHOT_EVERY=1m", "ARCHIVE_BACKLOG=100000", "PERSDB_RETAIN_BYTES=1",
		"MAX_DATABASE_MIB=8",
	}
	s.startPersdb(t)
	s.startLauncher(t)
	o := s.startOrchestrator(t)
	alerts := o.watchAlerts(t,
		"archive_lag_seconds) > 60", "archive_lag_seconds) > 1", "archive_lag_seconds) > 900", "archive_lag_seconds) > 2", "archive_snapshot_every_seconds) > 2", "archive_snapshot_every_seconds) > 0.05")
	const blob = "INSERT INTO ballast(x) VALUES(randomblob(50000))"
	o.exec(t, "CREATE TABLE ballast(n INTEGER PRIMARY KEY, x BLOB)", blob)
	testenv.Eventually(t, healLimit, func() error {
		c, err := onlyCatalog(t.Context(), folder)
		if err == nil && len(c.Segments) == 0 {
			err = errors.New("nothing is archived")
		}
		return err
	})

	away := folder + ".away"
	if err := errors.Join(os.Rename(folder, away), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		o.exec(t, blob)
	}
	alerts.Await(t, "RideshareArchiveLags", "RideshareArchiveLagsLong", "RideshareArchiveGap", "RideshareArchiveNoSnapshot")
	if err := errors.Join(os.Remove(folder), os.Rename(away, folder)); err != nil {
		t.Fatal(err)
	}

	clusters, err := archive.Clusters(t.Context(), place.Folder(folder))
	if err == nil {
		err = archive.WriteWriter(t.Context(), place.Folder(folder), clusters[0], archive.NewWriterID())
	}
	if err != nil {
		t.Fatal(err)
	}
	o.exec(t, blob)
	alerts.Await(t, "RideshareArchiveStopped")

	testenv.Eventually(t, healLimit, func() error {
		a, err := o.try(t.Context(), http.MethodPost, "/db/execute", []string{insertMiB})
		if err == nil && a.status == http.StatusOK {
			err = errors.New("the database is not full")
		}
		return err
	})
	alerts.Await(t, "RideshareDatabaseNearItsLimit", "RideshareFull")
}

// Alerts fire when an audit of the cache finds that a slave, whose replica was changed, answers differently, and while a stopped
// slave does not follow the log. The consistency check runs only after the first alert: it makes the slave build its replica
// again, which is an alert too, maybe before the audit of the cache has read the replica.
func TestAlerts_Replica(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, slowSession, "CACHE_AUDIT=100ms")
	sys.wrongCache = true
	alerts := sys.watchAlerts(t, "rideshare_worker_lag_entries) > 1000", "rideshare_worker_lag_entries) > 4")
	sys.exec(t, "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES(1, 0)")
	o := orchestrator{system: sys}
	testenv.Eventually(t, healLimit, func() error { return o.cached(t, "weak", "0") })
	slave := sys.cluster(t).pids("slave")[0]
	changeReplica(t, slave, "UPDATE t SET n = 1")
	alerts.Await(t, "RideshareCacheWrong")
	if a, err := sys.try(t.Context(), http.MethodPost, "/api/v1/check", nil); err != nil || a.status != http.StatusOK {
		t.Fatalf("check: got %d %.300s, %v", a.status, a.body, err)
	}
	alerts.Await(t, "RideshareReplicaDiverged")
	testenv.Eventually(t, healLimit, func() error { return o.cached(t, "weak", "0") })

	signal(t, slave, syscall.SIGSTOP)
	for range 6 {
		sys.exec(t, "INSERT INTO t(n) VALUES(0)")
	}
	alerts.Await(t, "RideshareReplicaLags")
	// The slave may have been replaced already.
	if err := syscall.Kill(slave, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}

// changeReplica changes a worker's replica behind the worker's back.
func changeReplica(t *testing.T, pid int, statement string) {
	t.Helper()
	dir, err := settingOf(pid, "--dir")
	files, globErr := filepath.Glob(filepath.Join(dir, "*.db"))
	if err = errors.Join(err, globErr); err != nil || len(files) != 1 {
		t.Fatalf("replica of %d: got %v, %v, want one file", pid, files, err)
	}
	db, err := sql.Open("sqlite", "file:"+files[0]+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.ExecContext(t.Context(), statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deadLetter sends a dead letter that cannot be decoded. The next master drops it.
func (s *system) deadLetter(t *testing.T) {
	t.Helper()
	err := s.atBroker(func(ch *amqp091.Channel) error {
		return ch.PublishWithContext(t.Context(), "", s.prefix+"dead.write.v3", true, false, amqp091.Publishing{Body: []byte("unreadable")})
	})
	if err != nil {
		t.Fatal(err)
	}
}
