package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
)

// write sends one write to the orchestrator under a key until it is acknowledged.
func (p *parts) write(t *testing.T, key, sql string) {
	t.Helper()
	testenv.Eventually(t, startLimit, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.orchestrator+"/db/execute", strings.NewReader(`["`+sql+`"]`))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		answer, err := text(http.DefaultClient.Do(req))
		if err == nil && strings.Contains(answer, "error") {
			err = fmt.Errorf("%s: %s", sql, answer)
		}
		return err
	})
}

// text returns the body of an answer that is not an error.
func text(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// With its log in PostgreSQL, persdb is killed between writes and started again: nothing acknowledged is lost or doubled,
// and the log is not in the data folder.
func TestPersdb_LogInPostgres_KilledLosesNothing(t *testing.T) {
	t.Parallel()
	place := pgtest.Shared(t)
	p := newParts(t)
	start := func() {
		t.Helper()
		p.start(t, "persdb", "--listen", p.persdb, "--data", p.path("persdb"), "--log", place.URL, "--log-password-file", place.PasswordFile)
	}
	start()
	p.startLauncher(t)
	p.startOrchestrator(t)
	p.ready(t)
	p.write(t, "table", "CREATE TABLE counted(n INTEGER)")
	const rounds, each = 3, 5
	for round := range rounds {
		for n := range each {
			p.write(t, fmt.Sprintf("%d-%d", round, n), fmt.Sprintf("INSERT INTO counted VALUES(%d)", round*each+n))
		}
		p.kill(t, "persdb")
		start()
	}
	p.write(t, "last", fmt.Sprintf("INSERT INTO counted VALUES(%d)", rounds*each))
	want := fmt.Sprintf("[[%d,%d]]", rounds*each+1, rounds*each+1)
	testenv.Eventually(t, startLimit, func() error {
		answer, err := text(http.Get("http://" + p.orchestrator + "/db/query?level=linearizable&q=SELECT%20count(*),count(DISTINCT%20n)%20FROM%20counted"))
		if err == nil && !strings.Contains(answer, want) {
			t.Fatalf("got %s, want %s", answer, want)
		}
		return err
	})
	if _, err := os.Stat(p.path("persdb/log.db")); !os.IsNotExist(err) {
		t.Errorf("log.db: got %v, want no such file", err)
	}
	if got := place.Value(t, "SELECT count(*)="+fmt.Sprint(rounds*each+2)+" FROM log"); got != "t" {
		t.Errorf("the log in PostgreSQL has not one entry for each write")
	}
}
