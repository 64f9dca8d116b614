package pglog_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"
)

// The faults of a primary and its standby, one after the other on one pair.
func TestLog_Faults(t *testing.T) {
	pair := testenv.StartPostgres(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testenv.Postgres)
	}{
		{"StandbyPaused_AppendIsUnknownUntilItContinues", standbyPaused},
		{"StandbyPaused_HeadIsNotProven", headWithPausedStandby},
		{"StandbyPaused_StoreNeverSaysNotDone", storeWithPausedStandby},
		{"WaitCancelled_SuccessWithAWarningDoesNotCount", waitCancelled},
		{"SettingEmptied_AppendDoesNotCount", settingEmptied},
		{"Settings_AreRefused", settingsRefused},
		{"Single_NeedsNoStandby", singleNeedsNoStandby},
		{"PrimaryPaused_IsWaitedFor", primaryPaused},
		{"BackendKilled_AppendIsSettled", backendKilled},
		{"PrimaryKilled_LogIsThereAgain", primaryKilled},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, pair) })
	}
}

// pause pauses a service until the test ends or resume is called.
func pause(t *testing.T, s *testenv.Service) (resume func()) {
	t.Helper()
	s.Pause(t)
	paused := true
	resume = func() {
		if paused {
			paused = false
			s.Resume(t)
		}
	}
	t.Cleanup(resume)
	return resume
}

// openWithOne opens a log with one entry.
func openWithOne(t *testing.T, pair *testenv.Postgres) (*pglog.Log, *pgtest.Place, dbaas.Epoch) {
	t.Helper()
	p := pgtest.In(t, pair)
	l := open(t, config(p).Slow())
	epoch := claim(t, l)
	mustAppend(t, l, record(1, epoch, "one"))
	return l, p, epoch
}

// standbyPaused: an append that no standby confirms is unknown, is not cancelled, counts for nobody, and is there when
// the standby continues.
func standbyPaused(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, p, epoch := openWithOne(t, pair)
	resume := pause(t, pair.Standby)
	wantCode(t, l.Append(t.Context(), record(2, epoch, "two")), dbaas.CodeUnknown)
	if got := p.Value(t, "SELECT head FROM log_meta"); got != "1" {
		t.Errorf("got head %s in the primary, want 1: the commit was cancelled", got)
	}
	for range 3 {
		_, err := l.Head(t.Context())
		wantCode(t, err, dbaas.CodeUnavailable)
	}
	wantRecords(t, l, record(1, epoch, "one"))
	testenv.Eventually(t, soon, func() error {
		if n := p.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name='rideshare-persdb' AND state='active'"); n != "1" {
			return fmt.Errorf("got %s statements that wait, want the append alone", n)
		}
		return nil
	})
	resume()
	wantHead(t, l, 2)
	wantRecords(t, l, record(1, epoch, "one"), record(2, epoch, "two"))
	mustAppend(t, l, record(3, epoch, "three"))
}

// headWithPausedStandby: a primary without its standby may have been replaced, so what it shows is no head, although its
// connection goes on and nothing was written.
func headWithPausedStandby(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, _, _ := openWithOne(t, pair)
	resume := pause(t, pair.Standby)
	_, err := l.Head(t.Context())
	wantCode(t, err, dbaas.CodeUnavailable)
	resume()
	wantHead(t, l, 1)
}

// storeWithPausedStandby: a store never says "not done" of an operation whose append is unknown, and the operation has
// one effect.
func storeWithPausedStandby(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	s := storeOn(t, t.TempDir(), config(pgtest.In(t, pair)).Slow())
	closed(t, s)
	by := dbaas.Leadership{Epoch: claimStore(t, s)}
	first, second := storetest.Op(1, "INSERT INTO users VALUES('ann','x')"), storetest.Op(2, "INSERT INTO users VALUES('bob','x')")
	resume := pause(t, pair.Standby)
	for range 3 {
		_, err := s.Commit(t.Context(), by, []dbaas.Operation{first})
		wantCode(t, err, dbaas.CodeUnknown)
	}
	_, err := s.Commit(t.Context(), by, []dbaas.Operation{second})
	wantCode(t, err, dbaas.CodeUnavailable)
	_, err = s.Head(t.Context())
	wantCode(t, err, dbaas.CodeUnavailable)
	resume()
	testenv.Eventually(t, soon, func() error {
		c, failed := s.Commit(t.Context(), by, []dbaas.Operation{first, second})
		if failed == nil && (c.Results[0].Seq != 1 || c.Results[1].Seq != 2) {
			failed = fmt.Errorf("got positions %d and %d, want 1 and 2", c.Results[0].Seq, c.Results[1].Seq)
		}
		return failed
	})
	storetest.NewReplica(t, s).Follow(t, s)
}

// appendWaiting begins an append whose commit waits for the paused standby, and returns its outcome and the process that waits.
func appendWaiting(t *testing.T, l *pglog.Log, p *pgtest.Place, epoch dbaas.Epoch) (outcome <-chan error, pid int) {
	t.Helper()
	appended := make(chan error, 1)
	go func() { appended <- l.Append(context.Background(), record(2, epoch, "two")) }()
	testenv.Eventually(t, soon, func() (err error) {
		pid, err = strconv.Atoi(p.Value(t, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event='SyncRep'"))
		if err == nil && pid == 0 {
			err = fmt.Errorf("no commit waits")
		}
		return err
	})
	return appended, pid
}

// wantOwed fails the test unless the append of the second entry counts for nobody while the standby is paused, and the entry is
// there once the standby continues.
func wantOwed(t *testing.T, l *pglog.Log, epoch dbaas.Epoch, resume func()) {
	t.Helper()
	_, err := l.Head(t.Context())
	wantCode(t, err, dbaas.CodeUnavailable)
	resume()
	wantHead(t, l, 2)
	wantRecords(t, l, record(1, epoch, "one"), record(2, epoch, "two"))
}

// wantPrimaryHead waits until the primary has committed this head.
func wantPrimaryHead(t *testing.T, p *pgtest.Place, want string) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		if got := p.Value(t, "SELECT head FROM log_meta"); got != want {
			return fmt.Errorf("got head %s in the primary, want %s", got, want)
		}
		return nil
	})
}

// waitCancelled: a commit whose wait for the standby is cancelled succeeds with a warning. It does not count until the
// standby has it.
func waitCancelled(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, p, epoch := openWithOne(t, pair)
	resume := pause(t, pair.Standby)
	appended, pid := appendWaiting(t, l, p, epoch)
	if p.Value(t, fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid)) != "t" {
		t.Fatal("the wait was not cancelled")
	}
	wantCode(t, <-appended, dbaas.CodeUnknown)
	wantPrimaryHead(t, p, "2") // the commit succeeds
	wantOwed(t, l, epoch, resume)
}

// settingEmptied: PostgreSQL lets a commit that waits succeed when the setting is emptied. It does not count.
func settingEmptied(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, p, epoch := openWithOne(t, pair)
	resume := pause(t, pair.Standby)
	appended, _ := appendWaiting(t, l, p, epoch)
	p.Set(t, "synchronous_standby_names", "")
	wantCode(t, <-appended, dbaas.CodeUnknown)
	wantPrimaryHead(t, p, "2")
	wantRefused(t, dbaas.CodeUnavailable, "synchronous_standby_names", func() error {
		_, err := l.Head(t.Context())
		return err
	})
	wantRefused(t, dbaas.CodeInvalid, "synchronous_standby_names", func() error { return l.Append(t.Context(), record(3, epoch, "three")) })
	wantRecords(t, l, record(1, epoch, "one"))
	p.Set(t, "synchronous_standby_names", "ANY 1 (pgstandby)")
	resume()
	wantHead(t, l, 2)
	wantRecords(t, l, record(1, epoch, "one"), record(2, epoch, "two"))
}

// settingsRefused: a server on which entries would be on one machine, or would not be on its disk, is refused, at a
// start and while the log is open.
func settingsRefused(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, p, epoch := openWithOne(t, pair)
	for _, wrong := range []struct{ name, value string }{
		{"fsync", "off"}, {"synchronous_commit", "local"}, {"synchronous_commit", "remote_write"}, {"synchronous_standby_names", ""},
	} {
		t.Run(wrong.name+" "+wrong.value, func(t *testing.T) {
			p.Set(t, wrong.name, wrong.value)
			cfg := config(pgtest.In(t, pair))
			wantRefused(t, dbaas.CodeInvalid, wrong.name, func() error {
				_, err := pglog.Open(t.Context(), cfg, dbaas.NewClusterID())
				return err
			})
			wantRefused(t, dbaas.CodeInvalid, wrong.name, func() error { return l.Append(t.Context(), record(2, epoch, "two")) })
		})
	}
	wantHead(t, l, 1)
	t.Run("rights", func(t *testing.T) {
		q := pgtest.In(t, pair)
		password, err := os.ReadFile(q.PasswordFile)
		if err != nil {
			t.Fatal(err)
		}
		q.Exec(t, "CREATE ROLE plain LOGIN PASSWORD '"+string(password)+"'")
		t.Cleanup(func() { q.Exec(t, "DROP OWNED BY plain; DROP ROLE plain") })
		cfg := config(q)
		cfg.URL = strings.Replace(cfg.URL, "rideshare@", "plain@", 1)
		_, err = pglog.Open(t.Context(), cfg, dbaas.NewClusterID())
		wantCode(t, err, dbaas.CodeInvalid, "pg_read_all_stats")
		q.Exec(t, "GRANT pg_read_all_stats TO plain")
		_, err = pglog.Open(t.Context(), cfg, dbaas.NewClusterID())
		wantCode(t, err, dbaas.CodeInvalid, "tables")
		q.Exec(t, "DO $$ BEGIN EXECUTE 'GRANT ALL ON SCHEMA '||current_schema()||' TO plain'; END $$")
		claim(t, open(t, cfg))
	})
}

// singleNeedsNoStandby: with Single a server without a standby is taken, but not one that does not sync.
func singleNeedsNoStandby(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	p := pgtest.In(t, pair)
	p.Set(t, "synchronous_standby_names", "")
	pause(t, pair.Standby)
	cfg := config(p).Slow() // it waits for the standby.
	cfg.Single = true
	l := open(t, cfg)
	epoch := claim(t, l)
	mustAppend(t, l, record(1, epoch, "one"))
	wantHead(t, l, 1)
	wantRecords(t, l, record(1, epoch, "one"))
	p.Set(t, "fsync", "off")
	wantRefused(t, dbaas.CodeInvalid, "fsync", func() error { return l.Append(t.Context(), record(2, epoch, "two")) })
}

// primaryPaused: a primary whose processes all stand still answers nothing, and the log goes on when they do.
func primaryPaused(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, _, epoch := openWithOne(t, pair)
	resume := pause(t, pair.Primary)
	wantCode(t, l.Append(t.Context(), record(2, epoch, "two")), dbaas.CodeUnknown)
	_, err := l.Head(t.Context())
	wantCode(t, err, dbaas.CodeUnavailable)
	resume()
	var b commitlog.Bounds
	testenv.Eventually(t, soon, func() (err error) {
		b, err = l.Head(t.Context())
		return err
	})
	if b.Head.Seq == 1 { // the statement was not read before the socket was closed.
		mustAppend(t, l, record(2, epoch, "two"))
	}
	wantRecords(t, l, record(1, epoch, "one"), record(2, epoch, "two"))
}

// backendKilled: the process of an append is killed while it waits for the standby; PostgreSQL then restarts all of its
// processes, and shows the entry.
func backendKilled(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, p, epoch := openWithOne(t, pair)
	resume := pause(t, pair.Standby)
	appended, pid := appendWaiting(t, l, p, epoch)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-appended, dbaas.CodeUnknown)
	wantOwed(t, l, epoch, resume)
}

// primaryKilled: all processes of the primary are killed and started again: what was stored is there.
func primaryKilled(t *testing.T, pair *testenv.Postgres) {
	t.Helper()
	l, _, epoch := openWithOne(t, pair)
	pair.Primary.Kill(t)
	_, err := l.Head(t.Context())
	wantCode(t, err, dbaas.CodeUnavailable)
	pair.Primary.Start(t)
	wantHead(t, l, 1)
	mustAppend(t, l, record(2, epoch, "two"))
	wantRecords(t, l, record(1, epoch, "one"), record(2, epoch, "two"))
}
