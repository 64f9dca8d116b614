package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// realPsql asks real servers: b is the primary, and this server is the standby that lags.
const realPsql = `case $3 in b) port=%[2]s ;; *) port=%[3]s ;; esac
PGPASSWORD=%[4]s exec %[1]s -XAt -h 127.0.0.1 -p $port -U rideshare -d postgres -c "$9"`

// A standby that does not receive waits while the primary has the WAL that it lacks. When the primary has removed that, the standby
// stops, and its next start makes it a copy of the primary.
func TestStart_StandbyBehind_IsCopied(t *testing.T) {
	c := startTrio(t)
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal(err)
	}
	port := func(address string) string {
		_, port, failed := net.SplitHostPort(address)
		if failed != nil {
			t.Fatal(failed)
		}
		return port
	}
	h := newHost(t)
	h.program(t, "psql", fmt.Sprintf(realPsql, psql, port(c.primary(t)), port(c.second.URL), c.password))
	h.data(t, "standby.signal", "pg_wal/000000010000000000000001")
	start := func() {
		t.Helper()
		if failed := h.start(t); failed != nil {
			t.Fatal(failed)
		}
	}
	p := c.at(t, c.primary(t))
	p.Exec(t, "CREATE TABLE filler(n int)")
	p.Exec(t, "ALTER SYSTEM SET wal_keep_size = 0")
	p.Exec(t, "SELECT pg_reload_conf()")
	start()
	c.lag(t)
	testenv.Eventually(t, soon, func() error {
		if c.at(t, c.second.URL).Value(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event='RecoveryRetrieveRetryInterval'") == "0" {
			return errors.New("the standby does not wait for WAL")
		}
		return nil
	})
	start()
	if h.has("stopped") || h.read(t, "main/standby.signal") != "" {
		t.Fatal("a standby stops that lacks nothing which the primary has removed")
	}
	for round := range 20 { // the second checkpoint removes WAL, and a standby may just try again to receive
		p.Exec(t, "INSERT INTO filler VALUES(1)")
		p.Exec(t, "SELECT pg_switch_wal()")
		p.Exec(t, "CHECKPOINT")
		if start(); h.has("stopped") {
			t.Logf("the standby stopped in round %d", round)
			break
		}
	}
	if !h.has("stopped") || h.read(t, "main/standby.signal") == "" {
		t.Fatal("the standby goes on")
	}
	if h.has("conninfo") {
		t.Fatal("the standby was copied before it stopped")
	}
	start()
	if !h.has("conninfo") || h.has("main/pg_wal/000000010000000000000001") {
		t.Error("the standby is no copy of the primary")
	}
}
