package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientsDir is the module that pins the clients of other projects.
var clientsDir = filepath.Join("..", "clients")

// noCgo is the environment of the clients' builds. An earlier step of CI has compiled the standard library with it.
const noCgo = "CGO_ENABLED=0"

// clientLimit bounds one run of a client, with the compilation of its tests on a busy machine.
const clientLimit = 5 * time.Minute

// runClient runs a program to its end and returns its exit code and all that it printed.
func runClient(t *testing.T, stdin string, env []string, name string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), noCgo), env...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// rqliteTools builds rqlite's shell and rqbench, once, and returns their directory.
var rqliteTools = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(suite.dir, "rqlite")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	const commands = "github.com/rqlite/rqlite/v8/cmd/"
	cmd := exec.Command("go", "build", "-C", clientsDir, "-o", dir, commands+"rqlite", commands+"rqbench")
	cmd.Env, cmd.Stderr = append(os.Environ(), noCgo), os.Stderr
	return dir, cmd.Run()
})

// tool returns the path of rqlite or rqbench.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir, err := rqliteTools()
	if err != nil {
		t.Fatalf("build rqlite's tools: %v", err)
	}
	return filepath.Join(dir, name)
}

// gorqlite runs the unchanged tests of a package of gorqlite's module on a system.
func (s *system) gorqlite(t *testing.T, pkg string) {
	t.Helper()
	code, out := runClient(t, "", []string{"GORQLITE_TEST_URL=" + s.Orchestrator}, "go", "test", "-C", clientsDir, "-count=1", "github.com/rqlite/gorqlite"+pkg)
	if code != 0 || !strings.Contains("\n"+out, "\nok ") { // go may tell of downloads first
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// gorqlite passes its own tests.
func TestClients_Gorqlite_PassesItsOwnTests(t *testing.T) { shared(t).gorqlite(t, "") }

// gorqlite's driver for database/sql passes its own tests.
func TestClients_GorqliteDriver_PassesItsOwnTests(t *testing.T) { shared(t).gorqlite(t, "/stdlib") }

// rqbench counts every answer without a result as a failure.
func TestClients_Rqbench_EachModeRuns(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER NOT NULL PRIMARY KEY, name TEXT")
	insert := "INSERT INTO " + table + `(name) VALUES("fiona")`
	oneshot := "INSERT INTO " + table + "(name) VALUES('once')"
	for _, mode := range []struct {
		args []string
		rows int
	}{
		{[]string{"-n", "20", insert}, 20},
		{[]string{"-n", "20", "-b", "10", insert}, 200},
		{[]string{"-n", "10", "-b", "5", "-x", insert}, 50},
		{[]string{"-n", "20", "-m", "5", "-p", "/db/request", insert}, 20},
		{[]string{"-n", "5", "-o", oneshot, insert}, 6},
		{[]string{"-n", "20", "-q", insert}, 20},
		{[]string{"-n", "20", "-q", "-b", "10", "-x", insert}, 200},
		{[]string{"-n", "50", "-p", "/db/query", "SELECT count(*) FROM " + table}, 0},
		{[]string{"-n", "50", "-b", "2", "-p", "/db/query?level=none", "SELECT count(*) FROM " + table}, 0},
		{[]string{"-n", "20", "-p", "/db/query?level=strong", "SELECT count(*) FROM " + table}, 0},
	} {
		sys.rqbench(t, table, mode.rows, mode.args...)
	}
}

// rqbench runs rqbench and checks how many rows it added to a table.
func (s *system) rqbench(t *testing.T, table string, rows int, args ...string) {
	t.Helper()
	before := s.QueryInt(t, "SELECT count(*) FROM "+table)
	code, out := runClient(t, "", nil, tool(t, "rqbench"), append([]string{"-a", strings.TrimPrefix(s.Orchestrator, "http://")}, args...)...)
	if code != 0 || !strings.Contains(out, "Statements/sec") {
		t.Errorf("rqbench %v: exit code %d:\n%s", args, code, out)
	}
	if got := s.QueryInt(t, "SELECT count(*) FROM "+table) - before; got != rows {
		t.Errorf("rqbench %v: added %d rows, want %d", args, got, rows)
	}
}

// said is a line typed into rqlite's shell and a pattern of what it prints.
type said struct{ line, want string }

// rqliteShell types the lines into rqlite's shell and checks what it prints after each. The version in its banner is
// unknown: the shell looks for the version in the answer of //status, which is not a path of the API.
func (s *system) rqliteShell(t *testing.T, lines []said) {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.Orchestrator, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var typed strings.Builder
	for _, l := range lines {
		typed.WriteString(l.line + "\n")
	}
	_, out := runClient(t, typed.String(), []string{"HOME=" + t.TempDir()}, tool(t, "rqlite"), "-H", host, "-p", port)
	_, out, _ = strings.Cut(out, net.JoinHostPort(host, port)+"> ")
	printed := strings.Split(out, net.JoinHostPort(host, port)+"> ")
	if len(printed) < len(lines) {
		t.Fatalf("answers: got %d, want %d:\n%s", len(printed), len(lines), out)
	}
	for i, l := range lines {
		if !regexp.MustCompile(l.want).MatchString(printed[i]) {
			t.Errorf("%s: got\n%swant %s", l.line, printed[i], l.want)
		}
	}
}

// rqlite's shell runs statements, changes settings, and shows the state of the system.
func TestClients_RqliteShell_StatementsAndSettings(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER NOT NULL PRIMARY KEY, name TEXT, b BLOB")
	dump := filepath.Join(t.TempDir(), "sysdump")
	const done = `^1 row affected\s$`
	sys.rqliteShell(t, []said{
		{"CREATE INDEX " + table + "_name ON " + table + "(name)", `^0 row affected\s$`},
		{"INSERT INTO " + table + `(name, b) VALUES("fiona", x'00ff')`, done},
		{"INSERT INTO " + table + "(name) VALUES('fiona') RETURNING id", `\| 2 +\|`},
		{"UPDATE " + table + " SET name = 'x' WHERE id = 2", done},
		{"SELECT * FROM " + table, `(?s)\| id +\| name +\| b +\|.*\| 1 +\| fiona +\| AP8= +\|.*\| 2 +\| x +\| <nil> +\|`},
		{".consistency", `^weak\s$`},
		{".consistency strong", `^$`},
		{"SELECT name FROM " + table + " WHERE id = 1", `fiona`},
		{".consistency linearizable", `^$`},
		{".tables", table},
		{".consistency none", `^$`},
		{".indexes", "CREATE INDEX " + table + "_name ON"},
		{".schema", "CREATE TABLE " + table},
		{".blobarray on", `^$`},
		{".blobarray off", `^$`},
		{".timer on", `^$`},
		{"SELECT count(*) FROM " + table, `Run Time: [0-9.e-]+ seconds`},
		{"DELETE FROM " + table + " WHERE id = 2", `^1 row affected \([0-9.e-]+ sec\)\s$`},
		{".timer off", `^$`},
		{".status", `(?m)^build:$`},
		{".status", `(?m)^http:$`},
		{".status", `(?m)^node:$`},
		{".status", `(?m)^os:$`},
		{".status", `(?m)^runtime:$`},
		{".status", `(?m)^store:$`},
		{".ready", `^ready\s$`},
		{".nodes", `leader: true`},
		{".nodes all", `reachable: true`},
		{".extensions", `^$`},
		{".sysdump " + dump, `^$`},
		{"SELECT nope FROM " + table, `Error: no such column: nope`},
		{".help", `\.backup FILE`},
		{".quit", `bye~`},
	})
	text, err := os.ReadFile(dump)
	if err != nil || strings.Count(string(text), "Status: 200 OK") != 3 {
		t.Errorf(".sysdump: %v, want /status, /nodes and /readyz with 200:\n%s", err, text)
	}
}

// rqlite's shell can load what it has saved: the file of the whole database, and the text of one table.
func TestClients_RqliteShell_BackupDumpAndRestore(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.Exec(t, "CREATE TABLE one(id INTEGER PRIMARY KEY, name TEXT)")
	sys.Exec(t, "CREATE TABLE two(a)")
	sys.Exec(t, "INSERT INTO one VALUES(1, 'it''s'), (2, 'x;y'), (3, NULL)")
	sys.Exec(t, "INSERT INTO two VALUES(1)")
	dir := t.TempDir()
	file, all, text := filepath.Join(dir, "file"), filepath.Join(dir, "all.sql"), filepath.Join(dir, "one.sql")
	const rows = `(?s)^[^|]*\| id .*\| 1 +\| it's .*\| 2 +\| x;y .*\| 3 +\| <nil> +\|\s[-+]+\s$`
	const loaded = `^ERR! EOF\s$` // the shell loses the body of an answer of 200, and then finds no JSON in it
	sys.rqliteShell(t, []said{
		{".backup " + file, `^backup file written successfully\s$`},
		{".dump " + all, `^SQL text file written successfully\s$`},
		{".dump " + text + " one", `^SQL text file written successfully\s$`},
		{".restore " + text, loaded}, // fails, since the table exists
		{"SELECT * FROM one", rows},
		{"DROP TABLE one", `row affected`},
		{".restore " + text, loaded},
		{"SELECT * FROM one", rows},
		{".restore " + file, `ERR! server responded with: 409 Conflict`},
		{"DELETE FROM one", `^3 row`},
		{"DELETE FROM two", `^1 row`},
		{".restore " + file, loaded},
		{"SELECT * FROM one", rows},
		{"SELECT rowid, a FROM two", `\| 1 +\| 1 +\|`},
	})
	for _, c := range []struct{ file, want string }{
		{file, "^SQLite format 3\x00"},
		{all, "(?s)^PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n.*CREATE TABLE users.*INSERT INTO \"two\" VALUES\\(1\\);\n.*COMMIT;\n$"},
		{text, "(?s)^PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE one.*COMMIT;\n$"},
	} {
		content, err := os.ReadFile(c.file)
		if err != nil || !regexp.MustCompile(c.want).Match(content) {
			t.Errorf("%s: %v, got %.300q, want %q", filepath.Base(c.file), err, content, c.want)
		}
	}
	sys.awaitChecked(t)
}
