package containers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/testenv"
)

// TestPostgres brings up a stack whose log is in PostgreSQL. A write is in the log's table on both servers, and outlives
// persdb and the primary: the standby is promoted, and the lost server comes back as a copy of it.
func TestPostgres(t *testing.T) {
	requireEngine(t)
	s := newStack(t)
	s.prometheus, s.extra = "", []string{"postgres1", "postgres2"}
	s.env = append(s.env, "POSTGRES=1", "OBSERVE=0")
	s.writeArchiveKey(t)
	s.up(t)
	s.testInspect(t)
	before := s.entries(t, "postgres1")
	s.put(t, "ann")
	if after := s.entries(t, "postgres1"); after == before {
		t.Errorf("the log in PostgreSQL has %s entries before and after a write", after)
	}
	testenv.Eventually(t, wholeLimit, func() error { return s.sameEntries(t) })
	s.killProcess(t, "persdb")
	s.awaitWhole(t)
	s.wantUsers(t, "ann")

	s.docker(t, "rm", "-fv", s.of(t, "postgres1").ID)
	s.docker(t, "volume", "rm", s.project+"_postgres1")
	s.promote(t, "postgres2", "postgres1")
	if _, err := s.run(t.Context(), "make", "--no-print-directory", "up", "POSTGRES=0"); err == nil || !strings.Contains(err.Error(), "POSTGRES=1") {
		t.Errorf("make up with the log in a file: got %v, want an error that names POSTGRES=1", err)
	}
	s.docker(t, "stop", s.of(t, "postgres2").ID) // an empty postgres1 must not create a database of its own while postgres2 is stopped
	s.up(t)
	s.put(t, "bob")
	s.wantUsers(t, "ann", "bob")
	testenv.Eventually(t, wholeLimit, func() error { return s.sameEntries(t) })
}

// put makes a user, once the stack takes writes.
func (s *stack) put(t *testing.T, name string) {
	t.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}`, name)
	unknown := false
	testenv.Eventually(t, wholeLimit, func() error {
		status, text, err := s.try(t.Context(), http.MethodPut, s.gateway+"/api/v1/users", body)
		if status == http.StatusCreated || unknown && status == http.StatusBadRequest { // the user is there already
			return nil
		}
		unknown = unknown || err != nil || status == http.StatusGatewayTimeout
		return fmt.Errorf("user %s: got %d %s (%w), want 201", name, status, text, err)
	})
}

// wantUsers fails the test unless these are all users.
func (s *stack) wantUsers(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	if err := json.Unmarshal([]byte(s.call(t, http.MethodGet, s.gateway+"/api/v1/users", "")), &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

// entries returns how many entries a server's log has.
func (s *stack) entries(t *testing.T, server string) string {
	t.Helper()
	return s.docker(t, "exec", "-e", "PGPASSFILE=/var/lib/postgresql/data/pgpass", s.of(t, server).ID,
		"psql", "-XAt", "-h", "127.0.0.1", "-U", "postgres", "-d", "rideshare", "-c", "SELECT count(*) FROM log")
}

// sameEntries returns an error unless both servers have the same entries.
func (s *stack) sameEntries(t *testing.T) error {
	t.Helper()
	if one, two := s.entries(t, "postgres1"), s.entries(t, "postgres2"); one != two {
		return fmt.Errorf("the servers have %s and %s entries", one, two)
	}
	return nil
}

// promote promotes the standby as docs/OPERATIONS.md describes, so that writes wait for the other server.
func (s *stack) promote(t *testing.T, standby, other string) {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(s.dir, "secrets", "postgres-superuser"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, wholeLimit, func() error { // a command that fails is run again
		_, failed := s.run(t.Context(), "env", "PGUSER=postgres", "PGPASSWORD="+string(password), "PGCONNECT_TIMEOUT=20",
			filepath.Join(s.root, "deploy", "postgres", "promote.sh"), "--names", other, s.address(t, standby, "data"))
		return failed
	})
}
