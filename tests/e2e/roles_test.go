package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// reloadLimit ends a broken run. The promise for a changed file is 5 s, which a busy machine may miss.
const reloadLimit = 30 * time.Second

// userLine is the line that `rideshare user` makes for a user with the password "pw of NAME".
func userLine(t *testing.T, name, role string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), suite.binary, "user", name, role)
	cmd.Stdin = strings.NewReader("pw of " + name + "\n")
	line, err := cmd.Output()
	if err != nil || strings.Contains(string(line), "pw of") {
		t.Fatalf("got %s (%v)", line, err)
	}
	return string(line)
}

func as(name string) string { return basic(name, "pw of "+name) }

// asks sends a request as caller, and returns an error unless the answer has the given status.
func (s *system) asks(t *testing.T, path, caller string, status int) error {
	t.Helper()
	a := s.Post(t, s.db(path), `["SELECT 1"]`, "Authorization", caller)
	if err := a.check(status, anyBody); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// A file with users and tokens lets each do what its role says. A changed file applies within 5 s, or immediately at SIGHUP,
// also to an open stream. A malformed file changes nothing. users and rides work with any file.
func TestRoles_FileIsFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth")
	token := runBinary(t, nil, "user", "reports", "read", "--token")
	_, secret, _ := strings.Cut(strings.TrimSpace(token.stderr), ": ")
	lines := userLine(t, "ann", "read") + userLine(t, "bob", "write") + token.stdout
	testenv.Replace(t, file, lines)
	sys := start(t, setup{owned: true, env: []string{"AUTH_FILE=" + file}})
	for _, c := range []struct {
		caller                string
		query, execute, check int
	}{
		{as("ann"), 200, 403, 403},
		{as("bob"), 200, 200, 403},
		{"Bearer " + secret, 200, 403, 403},
		{basic("ann", "pw of bob"), 401, 401, 401},
		{"", 401, 401, 401},
	} {
		err := errors.Join(sys.asks(t, "/db/query", c.caller, c.query), sys.asks(t, "/db/execute", c.caller, c.execute), sys.asks(t, "/api/v1/check", c.caller, c.check))
		if err != nil {
			t.Errorf("%.12s: %v", c.caller, err)
		}
	}
	denied := sys.Post(t, sys.db("/db/request"), `["CREATE TABLE x(a INTEGER PRIMARY KEY)"]`, "Authorization", as("ann"))
	if denied.Status != http.StatusOK || !strings.Contains(denied.Body, "error") {
		t.Errorf("a reader's write at /db/request: got %d %s, want the error of /db/query", denied.Status, denied.Body)
	}
	sys.Get(t, sys.db("/api/v1/cluster")).expect(t, http.StatusUnauthorized, anyBody)
	sys.PutUser(t, "passenger")

	streams := []io.Reader{sys.streamAs(t, "/api/v1/events", as("bob")), sys.streamAs(t, "/api/v1/changes", as("bob"))}
	testenv.Replace(t, file, strings.Replace(lines, "bob write", "bob rite", 1))
	sys.awaitLog(t, `"ERROR"`, "line 2")
	if err := sys.asks(t, "/db/execute", as("bob"), 200); err != nil {
		t.Errorf("after a malformed change: %v", err)
	}
	testenv.Replace(t, file, strings.Replace(lines, "ann read", "ann admin", 1))
	if err := sys.proc.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, reloadLimit, func() error { return sys.asks(t, "/api/v1/check", as("ann"), 200) })
	testenv.Replace(t, file, userLine(t, "ann", "read")+token.stdout)
	eventually(t, reloadLimit, func() error { return sys.asks(t, "/db/query", as("bob"), 401) })
	for _, stream := range streams {
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("the stream of a removed user: %v, want its end", err)
		}
	}
	cuts, failed := sys.metric(t, `rideshare_changes_cuts_total{reason="credentials"}`), sys.metric(t, `rideshare_reloads_total{files="credentials",result="failed"}`)
	// SIGHUP is counted even if the change was already applied.
	if ok := sys.metric(t, `rideshare_reloads_total{files="credentials",result="ok"}`); cuts != 1 || failed != 1 || ok < 2 {
		t.Errorf("got %v streams cut, %v reloads failed and %v done, want 1, 1 and 2", cuts, failed, ok)
	}
	text, err := os.ReadFile(sys.logFile())
	if err != nil || strings.Contains(string(text), "pw of") || strings.Contains(string(text), "argon2id") || strings.Contains(string(text), secret) {
		t.Errorf("the log has a credential (%v)", err)
	}
}

// streamAs opens a stream that ends with the test at the latest.
func (s *system) streamAs(t *testing.T, path, caller string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.db(path), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", caller)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s", path, resp.Status)
	}
	return resp.Body
}

// awaitLog waits for a line with all the words.
func (s *system) awaitLog(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, reloadLimit, func() error {
		text, err := os.ReadFile(s.logFile())
		if err != nil {
			return err
		}
	lines:
		for line := range strings.Lines(string(text)) {
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue lines
				}
			}
			return nil
		}
		return fmt.Errorf("no line with %q in the log", words)
	})
}

// users and rides need a line of the file that they can send. check and load need such a line too, or --user.
func TestRoles_NothingToSend_ExitsTwo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth")
	testenv.Replace(t, file, userLine(t, "ann", "admin"))
	env := []string{"AUTH_FILE=" + file}
	for _, args := range [][]string{
		{"users", "--orchestrator-url", "http://127.0.0.1:1"},
		{"rides", "--orchestrator-url", "http://127.0.0.1:1", "--gateway-url", "http://127.0.0.1:1"},
		{"check"},
		{"load"},
	} {
		runBinary(t, env, args...).expect(t, 2, "bearer or basic")
	}
	runBinary(t, append(env, "SERVICE_AUTH_FILE=/dev/null"), "users", "--orchestrator-url", "http://127.0.0.1:1").expect(t, 2, "SERVICE_AUTH_FILE")
	runBinary(t, nil, "check", "--user", "ann").expect(t, 2, "RIDESHARE_PASSWORD")
	sys := start(t, setup{env: env})
	if got := runBinary(t, []string{"RIDESHARE_PASSWORD=pw of ann"}, "check", "--orchestrator", sys.Orchestrator, "--user", "ann"); got.code != 0 {
		t.Errorf("check as ann: got %d, %s", got.code, got.stderr)
	}
	runBinary(t, []string{"RIDESHARE_PASSWORD=guess"}, "check", "--orchestrator", sys.Orchestrator, "--user", "ann").expect(t, 1, "401")
}
