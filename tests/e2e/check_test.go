package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repairLimit bounds how long a worker takes to start again from a snapshot.
const repairLimit = 30 * time.Second

// check runs `rideshare check` against the system.
func (s *system) check(t *testing.T, env []string, args ...string) ended {
	t.Helper()
	return runBinary(t, env, append([]string{"check", "--orchestrator", s.Orchestrator}, args...)...)
}

// awaitChecked waits until the check finds nothing, and returns what it printed.
func (s *system) awaitChecked(t *testing.T) string {
	t.Helper()
	var stdout string
	eventually(t, repairLimit, func() error {
		got := s.check(t, nil)
		stdout = got.stdout
		if got.code != 0 {
			return fmt.Errorf("check: exit code %d: %s", got.code, got.stderr)
		}
		return nil
	})
	return stdout
}

// alter runs a statement directly on a worker's replica file, without the worker.
func (s *system) alter(t *testing.T, container, statement string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dataDir(), "workers", container, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("replica of %s: got %v, %v; want one file", container, files, err)
	}
	alterFile(t, files[0], statement)
}

// alterFile runs a statement, which must change one row, on a database that the system has open.
func alterFile(t *testing.T, path, statement string) {
	t.Helper()
	file := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // Exec returns the errors that matter.
	result, err := db.ExecContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: %d rows, %v; want one", statement, n, err)
	}
}

// containerOf returns the container of the first worker in role.
func (s *system) containerOf(t *testing.T, role string) string {
	t.Helper()
	for _, m := range s.Cluster(t).Members {
		if m.Role == role {
			return m.Container
		}
	}
	t.Fatalf("no %s in %s", role, toJSON(s.Cluster(t)))
	return ""
}

// A row that is altered by hand in one replica, a slave's or the master's, is found by `check`, which names table and
// worker and exits 1. The worker repairs itself, nothing is lost, and soon `check` finds nothing wrong again.
func TestCheck_AlteredRow_IsFoundAndRepaired(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.PutUser(t, "ann")
	sys.PutUser(t, "bob")
	sys.awaitChecked(t)
	for _, role := range []string{"slave", "master"} {
		container := sys.containerOf(t, role)
		sys.alter(t, container, `UPDATE users SET password='altered' WHERE username='bob'`)
		report := filepath.Join(t.TempDir(), "report.json")
		got := sys.check(t, nil, "--json", report)
		got.expect(t, 1, "replicas_equal")
		for _, want := range []string{"users", container, "snapshot"} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("check after altering the %s: got %q, want it to name %s", role, got.stderr, want)
			}
		}
		if strings.Count(got.stdout, "FAILED") != 1 || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("check: got stdout %s and stderr %s, want one invariant that FAILED and one line", got.stdout, got.stderr)
		}
		checkReport(t, report, container)
		sys.awaitChecked(t)
		if n := sys.QueryInt(t, `SELECT count(*) FROM users WHERE password='altered'`); n != 0 {
			t.Errorf("after the repair of the %s: %d altered rows, want none", role, n)
		}
	}
	sys.PutUser(t, "eve")
	sys.awaitChecked(t)
}

// checkReport checks that the report in file names container and its table, and no other worker.
func checkReport(t *testing.T, file, container string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		OK      bool
		Workers []struct {
			Worker  string
			Differ  []string
			Problem string
		}
	}
	if err = json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if report.OK || len(report.Workers) != 2 {
		t.Errorf("report: got %s, want two workers and not ok", text)
	}
	for _, w := range report.Workers {
		want := ""
		if w.Worker == container {
			want = "users"
		}
		if got := strings.Join(w.Differ, ","); got != want || (w.Problem == "") != (want == "") {
			t.Errorf("report of %s: got %q %q, want %q", w.Worker, got, w.Problem, want)
		}
	}
}

// `check` names an entry that is missing in the middle of persdb's log.
func TestCheck_MissingEntry_IsNamed(t *testing.T) {
	sys := start(t, setup{owned: true})
	for _, name := range []string{"ann", "bob", "eve"} {
		sys.PutUser(t, name)
	}
	sys.awaitChecked(t)
	alterFile(t, filepath.Join(sys.dataDir(), "log.db"), `DELETE FROM rs_log WHERE seq=2`)
	sys.check(t, nil).expect(t, 1, "log_dense (entry 2 is missing)")
}

// `check` prints a line for every invariant, even while other clients write all the time and after a crash.
func TestCheck_SoundSystem_SaysSo(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}})
	sys.awaitSlaves(t, 2)
	done, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				stopped <- nil
				return
			default:
			}
			_, err := sys.Try(t.Context(), "PUT", sys.usersURL(), toJSON(map[string]string{
				"username": fmt.Sprint("writer", i), "password": strings.Repeat("a", 40),
			}))
			if err != nil { // refused during a crash is an answer too
				stopped <- fmt.Errorf("write %d: %w", i, err)
				return
			}
		}
	}()
	for _, crash := range []string{"", "slave", "master"} {
		if crash != "" {
			sys.Crash(t, crash)
			sys.awaitSlaves(t, 2) // A check waits 10 s for them.
		}
		got := sys.check(t, nil)
		if got.code != 0 {
			t.Errorf("check after crash/%s: exit code %d, stdout %s, stderr %s", crash, got.code, got.stdout, got.stderr)
		}
		for _, name := range []string{"log_dense", "log_intact", "epochs_ordered", "nothing_orphaned", "one_master", "slaves_as_wanted", "replicas_equal"} {
			if !strings.Contains(got.stdout, name) {
				t.Errorf("check: got %s, want a line of %s", got.stdout, name)
			}
		}
	}
	close(done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// With AUTH_FILE the check needs credentials, and takes them from that file.
func TestCheck_WithCredentials_SendsThem(t *testing.T) {
	file := "AUTH_FILE=" + credentialFile(t)
	sys := start(t, setup{env: []string{file}})
	sys.check(t, nil).expect(t, 1, "401")
	sys.check(t, []string{file}).expect(t, 0, "")
}

// Wrong usage and an unreachable system have different exit codes.
func TestCheck_NobodyThere_ExitCodes(t *testing.T) {
	runBinary(t, nil, "check", "--orchestrator", "nonsense").expect(t, 2, "--orchestrator")
	runBinary(t, nil, "check", "--persdb", "nonsense").expect(t, 2, "--persdb")
	runBinary(t, nil, "check", "--orchestrator", "http://127.0.0.1:1").expect(t, 1, "orchestrator")
}
