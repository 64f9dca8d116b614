package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/logtest"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"

	_ "modernc.org/sqlite" // the witness: another way to the same files.
)

// soon is longer than anything takes that the tests wait for.
const soon = 3 * time.Minute

func config(p *pgtest.Place) pglog.Config {
	return pglog.Config{URL: p.URL, PasswordFile: p.PasswordFile, Log: slog.New(slog.DiscardHandler)}.Patient()
}

// start opens a log without closing it.
func start(t *testing.T, cfg pglog.Config, cluster dbaas.ClusterID) *pglog.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	l, err := pglog.Open(ctx, cfg, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open opens a log of a new cluster.
func open(t *testing.T, cfg pglog.Config) *pglog.Log {
	t.Helper()
	return openOf(t, cfg, dbaas.NewClusterID())
}

func openOf(t *testing.T, cfg pglog.Config, cluster dbaas.ClusterID) *pglog.Log {
	t.Helper()
	l := start(t, cfg, cluster)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func record(seq dbaas.Seq, epoch dbaas.Epoch, text string) commitlog.Record {
	return commitlog.Record{
		Entry:      dbaas.Entry{Seq: seq, Epoch: epoch, At: time.UnixMilli(1_700_000_000_000), Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: []byte(text)}}},
		Operations: []byte("operations of " + text),
	}
}

func claim(t *testing.T, l *pglog.Log) dbaas.Epoch {
	t.Helper()
	var epoch dbaas.Epoch
	testenv.Eventually(t, soon, func() (err error) {
		epoch, err = l.Claim(t.Context())
		return err
	})
	return epoch
}

// mustAppend appends a record. A machine that stands still makes the outcome unknown; the head then has the record or not.
func mustAppend(t *testing.T, l *pglog.Log, r commitlog.Record) {
	t.Helper()
	unknown := false
	testenv.Eventually(t, soon, func() error {
		if unknown {
			if b, err := l.Head(t.Context()); err != nil || b.Head.Seq >= r.Entry.Seq {
				return err
			}
		}
		err := l.Append(t.Context(), r)
		unknown = unknown || dbaas.CodeOf(err) == dbaas.CodeUnknown
		return err
	})
}

// wantCode fails the test unless err has the code, and names what has to be named.
func wantCode(t *testing.T, err error, want dbaas.Code, named ...string) {
	t.Helper()
	if got := dbaas.CodeOf(err); got != want {
		t.Errorf("got %q, want %q: %v", got, want, err)
	}
	for _, name := range named {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %q", err, name)
		}
	}
}

// wantRefused waits until a call has the code, and an error that has the name. A machine that stands still makes calls fail in other
// ways, too.
func wantRefused(t *testing.T, want dbaas.Code, name string, call func() error) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		if err := call(); dbaas.CodeOf(err) != want || !strings.Contains(err.Error(), name) {
			return fmt.Errorf("got %w, want %q with %q", err, want, name)
		}
		return nil
	})
}

// wantHead waits until the log has a head.
func wantHead(t *testing.T, l *pglog.Log, want dbaas.Seq) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		b, err := l.Head(t.Context())
		if err == nil && b.Head.Seq != want {
			err = fmt.Errorf("got head %d, want %d", b.Head.Seq, want)
		}
		return err
	})
}

// wantRecords fails the test unless these are all entries of the log.
func wantRecords(t *testing.T, l *pglog.Log, want ...commitlog.Record) {
	t.Helper()
	var got []commitlog.Record
	testenv.Eventually(t, soon, func() (err error) {
		got, err = l.Read(t.Context(), 0, commitlog.Limit{Records: 100, Bytes: 1 << 20})
		return err
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// The log passes the conformance suite.
func TestLog_Suite(t *testing.T) {
	logtest.Run(t, func(t *testing.T) commitlog.Log {
		t.Helper()
		return start(t, config(pgtest.Shared(t)), dbaas.NewClusterID())
	})
}

// storeOn opens a store in a folder on a log. The caller closes it.
func storeOn(t *testing.T, dir string, cfg pglog.Config) *commitlog.Store {
	t.Helper()
	s, err := commitlog.Open(t.Context(), commitlog.Config{
		Dir: dir, Schema: rideschema.Create(), Protected: rideschema.Protected(), TrimEvery: -1, Shared: true,
		StatementLimit: time.Minute, OperationLimit: time.Minute, SharedLimit: time.Minute,
		OpenLog: func(cluster dbaas.ClusterID) (commitlog.Log, error) { return pglog.Open(t.Context(), cfg, cluster) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *commitlog.Store) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A store on the log passes the suite of all stores.
func TestStore_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		s := storeOn(t, t.TempDir(), config(pgtest.Shared(t)))
		closed(t, s)
		return s
	})
}

// A store whose tables are older than the log replays it, and answers what it has stored.
func TestStore_OlderTables_AreBroughtUpToTheLog(t *testing.T) {
	cfg, dir := config(pgtest.Shared(t)), t.TempDir()
	s := storeOn(t, dir, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, storetest.Op(1, "INSERT INTO users VALUES('ann','x')"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = storeOn(t, dir, cfg)
	storetest.Commit(t, s, epoch, storetest.Op(2, "INSERT INTO users VALUES('bob','x')"))
	want, err := s.Hashes(t.Context())
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	s = storeOn(t, older, cfg)
	closed(t, s)
	got, err := s.Hashes(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
	if c := storetest.Commit(t, s, epoch, storetest.Op(2, "INSERT INTO users VALUES('bob','x')")); c.Entry != nil || c.Results[0].Seq != 2 {
		t.Errorf("sent again: got entry %v and %+v, want the stored answer", c.Entry, c.Results)
	}
}

// A data folder and a log that do not belong together are refused, and an empty log is taken over.
func TestOpen_OtherCluster_IsRefused(t *testing.T) {
	cfg := config(pgtest.Shared(t))
	ours, theirs := dbaas.NewClusterID(), dbaas.NewClusterID()
	if err := start(t, cfg, theirs).Close(); err != nil {
		t.Fatal(err)
	}
	l := openOf(t, cfg, ours)
	claim(t, l)
	_, err := pglog.Open(t.Context(), cfg, theirs)
	wantCode(t, err, dbaas.CodeInternal, ours.String(), theirs.String())
	mustAppend(t, l, record(1, 1, "a")) // the other one has not taken the fence.
}

// What can never work ends Open: addresses that cannot be used, and credentials that the server refuses.
func TestOpen_WrongSettings_AreRefused(t *testing.T) {
	p := pgtest.Shared(t)
	wrong := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(wrong, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pglog.Config){
		"no address":      func(c *pglog.Config) { c.URL = "mysql://h/db" },
		"password in it":  func(c *pglog.Config) { c.URL = strings.Replace(c.URL, "@", ":secret@", 1) },
		"no port":         func(c *pglog.Config) { c.URL = "postgres://u@h:port/db" },
		"wrong password":  func(c *pglog.Config) { c.PasswordFile = wrong },
		"unknown base":    func(c *pglog.Config) { c.URL = strings.Replace(c.URL, "/postgres?", "/nowhere?", 1) },
		"unknown setting": func(c *pglog.Config) { c.URL += "&sslmode=perhaps" },
	} {
		cfg := config(p)
		change(&cfg)
		_, err := pglog.Open(t.Context(), cfg, dbaas.NewClusterID())
		if dbaas.CodeOf(err) != dbaas.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want code %q and no secret", name, err, dbaas.CodeInvalid)
		}
	}
}

// takeOver makes a log the active one.
func takeOver(t *testing.T, l *pglog.Log) {
	t.Helper()
	if err := l.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantNotActive fails the test unless err is the refusal of a log that is not the active one.
func wantNotActive(t *testing.T, err error) {
	t.Helper()
	if !dbaas.IsNotActive(err) {
		t.Errorf("got %v, want %v", err, dbaas.ErrNotActive)
	}
}

// Two logs take turns on one database: the newer epoch wins, and each position has one content. The log that is not active
// has no effect, and sees what is stored.
func TestLog_TwoWriters_EachSeqHasOneContent(t *testing.T) {
	cfg, cluster := config(pgtest.Shared(t)), dbaas.NewClusterID()
	cfg = cfg.WithHold(time.Nanosecond)
	a, b := openOf(t, cfg, cluster), openOf(t, cfg, cluster)
	old := claim(t, a)
	mustAppend(t, a, record(1, old, "a1"))
	_, err := b.Claim(t.Context())
	wantNotActive(t, err)
	_, err = b.Head(t.Context())
	wantNotActive(t, err)
	wantNotActive(t, b.Append(t.Context(), record(2, old, "b2")))
	wantNotActive(t, b.Trim(t.Context(), 1, 0))
	if bounds, failed := b.Look(t.Context()); failed != nil || bounds.Head != (dbaas.Head{Seq: 1, Epoch: old}) {
		t.Errorf("got %+v, %v, want entry 1 of epoch %d", bounds, failed, old)
	}
	wantRecords(t, b, record(1, old, "a1"))
	takeOver(t, b)
	wantNotActive(t, a.Append(t.Context(), record(2, old, "a2")))
	epoch := claim(t, b)
	if epoch != old+1 {
		t.Errorf("got epoch %d after %d", epoch, old)
	}
	takeOver(t, a)
	wantCode(t, a.Append(t.Context(), record(2, old, "a2")), dbaas.CodeStaleEpoch)
	takeOver(t, b)
	mustAppend(t, b, record(2, epoch, "b2"))
	takeOver(t, a)
	wantCode(t, a.Append(t.Context(), record(2, epoch, "a2")), dbaas.CodeConflict)
	mustAppend(t, a, record(3, epoch, "a3"))
	takeOver(t, b)
	wantCode(t, b.Append(t.Context(), record(3, epoch, "b3")), dbaas.CodeConflict)
	want := []commitlog.Record{record(1, old, "a1"), record(2, epoch, "b2"), record(3, epoch, "a3")}
	for _, l := range []*pglog.Log{b, a} {
		takeOver(t, l)
		wantHead(t, l, 3)
		wantRecords(t, l, want...)
	}
}

// A statement that finds wrong settings is not done, also if they are right again when the look behind it runs. The trigger stands
// for such settings: it leaves a session its fence, and no statement does its work.
func TestLog_SettingsRightAgain_NotDone(t *testing.T) {
	p := pgtest.Shared(t)
	l := open(t, config(p))
	epoch := claim(t, l)
	mustAppend(t, l, record(1, epoch, "one"))
	mustAppend(t, l, record(2, epoch, "two"))
	p.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER refuse BEFORE UPDATE ON log_meta FOR EACH ROW WHEN (OLD.fence = NEW.fence) EXECUTE FUNCTION refuse()`)
	for name, call := range map[string]func() error{
		"Claim":    func() error { _, err := l.Claim(t.Context()); return err },
		"Trim":     func() error { return l.Trim(t.Context(), 1, 0) },
		"Head":     func() error { _, err := l.Head(t.Context()); return err },
		"TakeOver": func() error { return l.TakeOver(t.Context()) },
		"Append":   func() error { return l.Append(t.Context(), record(3, epoch, "three")) },
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), dbaas.CodeUnavailable) })
	}
	p.Exec(t, "DROP TRIGGER refuse ON log_meta")
	wantHead(t, l, 2)
	if next := claim(t, l); next != epoch+1 {
		t.Errorf("got epoch %d, want %d", next, epoch+1)
	}
}
