// Package postgres_test tests what an operator has for the log in PostgreSQL, on a real primary with two standbys.
package postgres_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wait"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"
)

// promoteScript is built in, so that a mutant of the script is tested like one of the code.
//
//go:embed promote.sh
var promoteScript []byte

const (
	// soon is longer than anything takes that the tests wait for.
	soon = 2 * time.Minute
	// some is how many entries show that writes go on.
	some = 20
)

// brokenPsql is psql. Its first call whose arguments and SQL have ON waits until somebody writes to HOLD, if that is a pipe. The
// script that called it is killed after call number DIE_AT with ON. ARGUMENTS gets what the process list shows of each call. The
// session with a lock only ends with the script.
const brokenPsql = `#!/bin/sh
echo "$*" >>"$ARGUMENTS"
[ -z "$PGAPPNAME" ] || exec %[1]s "$@"
sql=$(cat)
case "$* $sql" in *"$ON"*) [ ! -p "$HOLD" ] || { read -r go <"$HOLD"; rm "$HOLD"; } ;; esac
printf '%%s\n' "$sql" | %[1]s "$@"
result=$?
case "$* $sql" in *"$ON"*)
	echo >>"$CALLS"
	[ "$(wc -l <"$CALLS")" -ne "$DIE_AT" ] || kill -KILL "$SCRIPT" ;;
esac
exit $result
`

// trio is a primary with two standbys, of which the second one lags in the tests.
type trio struct {
	pair          *testenv.Postgres
	first, second *testenv.Service // the standbys
	password      string
	dir           string // of the script, and of the psql that it finds
}

func startTrio(t *testing.T) *trio {
	t.Helper()
	pair := testenv.StartPostgres(t)
	password, err := os.ReadFile(pair.PasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal(err)
	}
	c := &trio{pair: pair, first: pair.Standby, second: pair.StartSecond(t), password: strings.TrimSpace(string(password)), dir: t.TempDir()}
	for name, text := range map[string][]byte{"promote.sh": promoteScript, "psql": fmt.Appendf(nil, brokenPsql, psql)} {
		if err = os.WriteFile(filepath.Join(c.dir, name), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// primary returns the address of the first primary.
func (c *trio) primary(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(c.pair.Primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(u.Host, ",")
	return host
}

// at is the place to ask one of the servers.
func (c *trio) at(t *testing.T, host string) *pgtest.Place {
	t.Helper()
	p := &pgtest.Place{URL: c.pair.Primary.URL, PasswordFile: c.pair.PasswordFile}
	p.URL = p.Through(t, host)
	return p
}

// promote runs the script, which dies after dieAt calls of psql, and returns what it says.
func (c *trio) promote(t *testing.T, dieAt int, args ...string) (string, error) {
	t.Helper()
	return c.run(t, []string{fmt.Sprint("DIE_AT=", dieAt)}, args...)
}

// run runs the script with settings of brokenPsql, and returns what it says. No call of psql may show the password in the process list.
func (c *trio) run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	arguments := filepath.Join(t.TempDir(), "arguments")
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", `export SCRIPT=$$; exec bash "$0" "$@"`, filepath.Join(c.dir, "promote.sh")}, args...)...)
	cmd.Env = append(os.Environ(), append([]string{
		"PATH=" + c.dir + ":" + os.Getenv("PATH"), "PGUSER=rideshare", "PGPASSWORD=" + c.password, "PGCONNECT_TIMEOUT=20",
		"DIE_AT=0", "TMPDIR=" + t.TempDir(), "CALLS=" + filepath.Join(t.TempDir(), "calls"), "ARGUMENTS=" + arguments, "HOSTNAME=" + strings.Repeat("h", 63),
	}, env...)...)
	out, err := cmd.CombinedOutput()
	t.Logf("promote.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	if all, failed := os.ReadFile(arguments); failed != nil || strings.Contains(string(all), c.password) {
		t.Errorf("the password is among the arguments of psql (%v):\n%s", failed, all)
	}
	return string(out), err
}

// refused runs the script, which must end with an error that has the words.
func (c *trio) refused(t *testing.T, words string, args ...string) {
	t.Helper()
	if out, err := c.promote(t, 0, args...); err == nil || !strings.Contains(out, words) {
		t.Errorf("got %v, want an error with %q", err, words)
	}
}

// done runs the script, which must succeed and say the words.
func (c *trio) done(t *testing.T, words string, args ...string) {
	t.Helper()
	if out, err := c.promote(t, 0, args...); err != nil || !strings.Contains(out, words) {
		t.Fatalf("got %v, want no error and %q", err, words)
	}
}

// wantRole fails the test unless the server is a standby, or not.
func (c *trio) wantRole(t *testing.T, host, standby string) {
	t.Helper()
	if got := c.at(t, host).Value(t, "SELECT pg_is_in_recovery()"); got != standby {
		t.Fatalf("%s: got %s for pg_is_in_recovery, want %s", host, got, standby)
	}
}

// lag stops the replication to the second standby.
func (c *trio) lag(t *testing.T) {
	t.Helper()
	p := c.at(t, c.second.URL)
	c.follow(t, c.second.URL, c.followed(t, c.second.URL)+" port=1")
	testenv.Eventually(t, soon, func() error {
		if n := p.Value(t, "SELECT count(*) FROM pg_stat_wal_receiver"); n != "0" {
			return errors.New("it still receives")
		}
		return nil
	})
}

// writer appends to a log on all three servers, one entry after the other.
type writer struct {
	log   *pglog.Log
	epoch dbaas.Epoch
	acked atomic.Int64 // entries that are acknowledged: those up to this one
	ended chan error
}

// startWriter starts a writer. stop ends it, and fails the test unless the log has what was acknowledged.
func (c *trio) startWriter(t *testing.T) (w *writer, stop func()) {
	t.Helper()
	all := c.at(t, strings.Join([]string{c.primary(t), c.first.URL, c.second.URL}, ","))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	w = &writer{ended: make(chan error, 1)}
	var err error
	w.log, err = pglog.Open(ctx, pglog.Config{URL: all.URL, PasswordFile: all.PasswordFile, Log: slog.New(slog.DiscardHandler)}, dbaas.NewClusterID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.log.Close() })    // its servers may be gone.
	testenv.Eventually(t, soon, func() error { // A server that has just started may be slow.
		w.epoch, err = w.log.Claim(ctx)
		return err
	})
	running, end := context.WithCancel(t.Context())
	go func() { w.ended <- w.run(running) }()
	t.Cleanup(end)
	return w, func() {
		t.Helper()
		end()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		w.verify(t)
	}
}

func entry(n int64, epoch dbaas.Epoch) commitlog.Record {
	return commitlog.Record{Entry: dbaas.Entry{Seq: dbaas.Seq(n), Epoch: epoch, At: time.UnixMilli(n)}, Operations: fmt.Append(nil, "entry ", n)}
}

// run appends until ctx ends. An append that did not succeed is settled by the next Head.
func (w *writer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		n := w.acked.Load() + 1
		err := w.log.Append(ctx, entry(n, w.epoch))
		for err != nil && ctx.Err() == nil {
			var b commitlog.Bounds
			if b, err = w.log.Head(ctx); err != nil {
				wait.For(ctx, 10*time.Millisecond)
				continue
			}
			if head := int64(b.Head.Seq); head != n && head != n-1 {
				return fmt.Errorf("the log ends at %d, want %d or %d: acknowledged entries are lost", head, n-1, n)
			} else if head == n-1 {
				err = w.log.Append(ctx, entry(n, w.epoch))
			}
		}
		if err == nil {
			w.acked.Store(n)
		}
	}
	return nil
}

// goesOn waits until some more entries are acknowledged.
func (w *writer) goesOn(t *testing.T) {
	t.Helper()
	from := w.acked.Load()
	testenv.Eventually(t, soon, func() error {
		select {
		case err := <-w.ended:
			t.Fatalf("the writer has ended: %v", err)
		default:
		}
		if n := w.acked.Load() - from; n < some {
			return fmt.Errorf("%d entries acknowledged, want %d", n, some)
		}
		return nil
	})
}

// verify reads the whole log.
func (w *writer) verify(t *testing.T) {
	t.Helper()
	for n := int64(0); n < w.acked.Load(); {
		var records []commitlog.Record
		testenv.Eventually(t, soon, func() (err error) {
			if records, err = w.log.Read(t.Context(), dbaas.Seq(n), commitlog.Limit{Records: 1000, Bytes: 1 << 20}); err == nil && len(records) == 0 {
				err = fmt.Errorf("got no entries after %d, want all of %d that were acknowledged", n, w.acked.Load())
			}
			return err
		})
		for _, r := range records {
			n++
			if want := entry(n, w.epoch); r.Entry.Seq != want.Entry.Seq || string(r.Operations) != string(want.Operations) {
				t.Fatalf("got %d %q, want %d %q", r.Entry.Seq, r.Operations, want.Entry.Seq, want.Operations)
			}
		}
	}
}

// The primary is killed under writes while one standby is behind. The script dies after each of its steps, is run again, and
// promotes the other one. Writes go on, and nothing acknowledged is lost.
func TestPromote_UnderWrites_LosesNothing(t *testing.T) {
	c := startTrio(t)
	w, stop := c.startWriter(t)
	w.goesOn(t)

	c.refused(t, c.primary(t)+" answers and is a primary", c.second.URL, c.first.URL)
	c.second.Pause(t)
	c.refused(t, "no answer from "+c.second.URL, c.second.URL, c.first.URL)
	c.second.Resume(t)
	w.goesOn(t)

	c.lag(t)
	w.goesOn(t)
	c.pair.Primary.Kill(t)
	deaths, failures := 0, 0
	for {
		out, err := c.promote(t, deaths+1, c.second.URL, c.first.URL)
		if err == nil {
			break
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !killed(exit) {
			if failures++; failures > 3 { // a machine that stands still; what fails is run again
				t.Fatalf("run %d: %v: %s", deaths+failures, err, out)
			}
			continue
		}
		deaths++
		if strings.Contains(out, "is a primary already") {
			c.wantRole(t, c.first.URL, "f")
		}
	}
	if deaths < 10 {
		t.Errorf("the script died %d times, want at least 10: it was not killed in each step", deaths)
	}
	c.wantRole(t, c.first.URL, "f")
	c.wantRole(t, c.second.URL, "t")
	w.goesOn(t)
	c.done(t, c.first.URL+" is a primary already", c.second.URL, c.first.URL)
	w.goesOn(t)
	stop()
	c.testOneLeft(t)
}

func killed(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// testOneLeft: with one server left the operator must accept the loss of entries (--accept-loss) and name the standbys that writes
// wait for (--names). The lost server need not be named. The paused server comes back as a second primary, and the script then changes nothing.
func (c *trio) testOneLeft(t *testing.T) {
	t.Helper()
	before := c.at(t, c.first.URL).Value(t, "SELECT epoch FROM log_meta")
	c.first.Pause(t)
	c.refused(t, "no answer from "+c.first.URL, c.first.URL, c.second.URL)
	c.refused(t, "Give --names", "--accept-loss", c.first.URL, c.second.URL)
	c.wantRole(t, c.second.URL, "t")
	c.done(t, "persdb refuses writes until", "--accept-loss", "--names", "h4,h5", c.second.URL)
	c.wantRole(t, c.second.URL, "f")
	if got := c.at(t, c.second.URL).Value(t, "SELECT current_setting('synchronous_standby_names')"); got != `ANY 1 ("h4", "h5")` {
		t.Errorf("got %s for synchronous_standby_names, want h4 and h5", got)
	}
	if got := c.at(t, c.second.URL).Value(t, "SELECT epoch-1000 FROM log_meta"); got != before {
		t.Errorf("got epoch 1000 + %s, want 1000 + %s", got, before)
	}
	c.done(t, "is a primary already", "--accept-loss", "--names", "h4,h5", c.second.URL) // the run before may have died after the promotion
	if got := c.at(t, c.second.URL).Value(t, "SELECT epoch-2000 FROM log_meta"); got != before {
		t.Errorf("run again: got epoch 2000 + %s, want 2000 + %s", got, before)
	}
	c.first.Resume(t)
	c.refused(t, "are all primaries", c.first.URL, c.second.URL)
}
