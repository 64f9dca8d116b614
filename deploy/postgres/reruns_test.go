package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// standbys returns the addresses of both, in the order in which the script works with them, and the arguments and SQL with which
// it first calls psql to stop replication on the last one.
func (c *trio) standbys() (first, last, stop string) {
	first, last = min(c.first.URL, c.second.URL), max(c.first.URL, c.second.URL)
	_, port, _ := strings.Cut(last, ":")
	return first, last, "-p " + port + " SELECT current_setting('primary_conninfo') <> "
}

// The primary was only paused, and the script died after it had stopped replication. The same words make the standbys follow the
// primary again. Later the primary is lost, and two runs at once promote one standby.
func TestPromote_RunAgain_WritesGoOn(t *testing.T) {
	c := startTrio(t)
	w, stop := c.startWriter(t)
	w.goesOn(t)
	first, last, stops := c.standbys()
	c.testWrongPassword(t)
	c.testFollowed(t)
	w.goesOn(t)

	c.pair.Primary.Pause(t)
	_, err := c.run(t, []string{"ON=" + stops, "DIE_AT=1"}, last, first)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !killed(exit) {
		t.Fatalf("got %v, want a script that was killed", err)
	}
	c.pair.Primary.Resume(t)
	c.done(t, c.primary(t)+" is a primary already", last, first)
	c.wantRole(t, first, "t")
	c.wantRole(t, last, "t")
	w.goesOn(t)

	c.pair.Primary.Kill(t)
	c.runTwice(t)
	w.goesOn(t)
	stop()
}

// runTwice runs the script while another run is about to stop replication on the last standby. Both must succeed.
func (c *trio) runTwice(t *testing.T) {
	t.Helper()
	first, last, stops := c.standbys()
	hold := filepath.Join(t.TempDir(), "hold")
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.run(t, []string{"ON=" + stops, "HOLD=" + hold}, last, first)
		one <- err
	}()
	held := make(chan *os.File, 1)
	go func() {
		if pipe, err := os.OpenFile(hold, os.O_WRONLY, 0); err == nil { // it is opened when the run reads
			held <- pipe
		}
	}()
	var pipe *os.File
	select {
	case pipe = <-held:
	case err := <-one:
		t.Fatalf("the first run has ended before it stopped replication: %v", err)
	}
	go func() {
		_, err := c.promote(t, 0, first, last)
		two <- err
	}()
	testenv.Eventually(t, soon, func() error {
		if len(two) == 0 && c.at(t, first).Value(t, "SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND NOT granted") == "0" {
			return errors.New("the second run has not ended and does not wait")
		}
		return nil
	})
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-one, <-two); err != nil {
		t.Fatal(err)
	}
}

// testWrongPassword: a server that refuses the user does not count as lost, and the script asks for no password.
func (c *trio) testWrongPassword(t *testing.T) {
	t.Helper()
	for password, words := range map[string]string{"another": "password authentication failed", "": "no password supplied"} {
		out, err := c.run(t, []string{"PGPASSFILE=/dev/null", "PGPASSWORD=" + password}, c.first.URL, c.second.URL)
		if err == nil || !strings.Contains(out, words) || !strings.Contains(out, "Set PGUSER") || strings.Contains(out, "--accept-loss") {
			t.Errorf("with the password %q: got %v, want an error with %q and no advice to accept a loss", password, err, words)
		}
	}
}

// testFollowed: the script asks the primary that the standbys follow, also if its address has no name, and says so if it cannot.
// Afterwards each primary_conninfo has an address without a name, and the password.
func (c *trio) testFollowed(t *testing.T) {
	t.Helper()
	first, last, _ := c.standbys()
	before := c.followed(t, first)
	for hosts, words := range map[string]string{"127.0.0.1,127.0.0.1": "cannot tell which primary " + first + " follows", "no..name": "was not asked"} {
		c.follow(t, first, before+" host="+hosts)
		c.refused(t, words, last, first)
	}
	for standby, info := range map[string]string{first: before, last: c.followed(t, last)} {
		c.follow(t, standby, strings.Replace(info, "host=", "hostaddr=", 1)+" password="+c.password)
	}
	c.refused(t, c.primary(t)+" answers and is a primary", last, first)
}

// followed returns the standby's primary_conninfo.
func (c *trio) followed(t *testing.T, standby string) string {
	t.Helper()
	return c.at(t, standby).Value(t, "SELECT current_setting('primary_conninfo')")
}

// follow sets the standby's primary_conninfo.
func (c *trio) follow(t *testing.T, standby, info string) {
	t.Helper()
	p := c.at(t, standby)
	p.Exec(t, "ALTER SYSTEM SET primary_conninfo = '"+info+"'")
	p.Exec(t, "SELECT pg_reload_conf()")
	testenv.Eventually(t, soon, func() error {
		if got := c.followed(t, standby); got != info {
			return fmt.Errorf("got %s for primary_conninfo, want %s", got, info)
		}
		return nil
	})
}
