package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
)

func TestShell_ExitCodes(t *testing.T) {
	sys := shared(t)
	tests := map[string]struct {
		input  string
		env    []string
		args   []string
		code   int
		stdout string
		stderr string // part of it
	}{
		"piped":             {input: "SELECT 1 AS a;\nSELECT 2 AS b", args: []string{sys.Orchestrator, "--mode", "csv"}, stdout: "a\n1\nb\n2\n"},
		"a text":            {input: "SELECT 2;", args: []string{sys.Orchestrator, "--mode=csv", "-c", "SELECT 1 AS a"}, stdout: "a\n1\n"},
		"URL by setting":    {env: []string{"ORCHESTRATOR_URL=" + sys.Orchestrator}, args: []string{"--mode=csv", "-c", "SELECT 1 AS a"}, stdout: "a\n1\n"},
		"goes on":           {input: "SELECT nix;\nSELECT 1 AS a;", args: []string{sys.Orchestrator, "--mode=csv"}, code: 1, stdout: "a\n1\n", stderr: "Error near line 1: no such column: nix"},
		"ends":              {input: "SELECT nix;\nSELECT 1;", args: []string{sys.Orchestrator, "--bail"}, code: 1, stderr: "Error near line 1: no such column: nix"},
		"a text that fails": {args: []string{sys.Orchestrator, "-c", "\n\nSELECT nix"}, code: 1, stderr: "Error near line 3: no such column: nix"},
		"transaction":       {args: []string{sys.Orchestrator, "-c", "BEGIN"}, code: 1, stderr: "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		"no server":         {input: "SELECT 1;", args: []string{"http://127.0.0.1:1"}, code: 1, stderr: "no answer from http://127.0.0.1:1"},
		"another server":    {input: "SELECT 1;", args: []string{sys.Users}, code: 1, stderr: "is no orchestrator"},
		"no URL":            {args: []string{"127.0.0.1:8083"}, code: 2, stderr: "neither http://host:port nor"},
		"credentials in it": {args: []string{strings.Replace(sys.Orchestrator, "://", "://ann:pass@", 1)}, code: 2, stderr: "use --auth-file, or --user and $RIDESHARE_PASSWORD"},
		"no such mode":      {args: []string{sys.Orchestrator, "--mode=x"}, code: 2, stderr: "--mode"},
		"no password":       {env: []string{"RIDESHARE_PASSWORD="}, args: []string{sys.Orchestrator, "--user=ann"}, code: 2, stderr: "RIDESHARE_PASSWORD"},
		"no file":           {args: []string{sys.Orchestrator, "--auth-file=/none"}, code: 2, stderr: "AUTH_FILE"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := runInput(t, tt.input, tt.env, append([]string{"shell"}, tt.args...)...)
			got.expect(t, tt.code, tt.stderr)
			if diff := cmp.Diff(tt.stdout, got.stdout); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if tt.code == 0 && got.stderr != "" || strings.Contains(got.stderr, "pass@") {
				t.Errorf("got stderr %q", got.stderr)
			}
		})
	}
}

func TestShell_Credentials(t *testing.T) {
	file := credentialFile(t)
	sys := start(t, setup{env: []string{"AUTH_FILE=" + file}})
	ask := []string{"shell", sys.Orchestrator, "-c", "SELECT 1"}
	runBinary(t, nil, ask...).expect(t, 1, "credentials are missing or wrong (HTTP 401)")
	runBinary(t, []string{"RIDESHARE_PASSWORD=wrong"}, append(ask, "--user=ann")...).expect(t, 1, "credentials are missing or wrong (HTTP 401)")
	runBinary(t, []string{"RIDESHARE_PASSWORD=pass:word", "AUTH_FILE=/none"}, append(ask, "--user=ann")...).expect(t, 0, "")
	runBinary(t, nil, append(ask, "--auth-file", file)...).expect(t, 0, "")
	runBinary(t, []string{"AUTH_FILE=" + file}, ask...).expect(t, 0, "")
}

// The examples of docs/SHELL.md print what the page shows.
func TestShell_Document(t *testing.T) {
	sys := shared(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "SHELL.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```\n")
	example, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/SHELL.md has no example")
	}
	var input, want strings.Builder
	for line := range strings.Lines(example) {
		typed, isTyped := strings.CutPrefix(strings.Replace(line, "   ...> ", "rideshare> ", 1), "rideshare> ")
		switch {
		case isTyped:
			input.WriteString(typed)
		case !strings.HasSuffix(line, " rows affected\n"): // printed only on a terminal
			want.WriteString(line)
		}
	}
	got := runInput(t, input.String(), nil, "shell", sys.Orchestrator)
	got.expect(t, 0, "")
	if diff := cmp.Diff(want.String(), got.stdout); diff != "" {
		t.Errorf("docs/SHELL.md (-page +shell):\n%s", diff)
	}
}

// .load restores what .backup and .dump have written.
func TestShell_BackupDumpAndLoad(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.Exec(t, "CREATE TABLE one(id INTEGER PRIMARY KEY, name TEXT)")
	sys.Exec(t, "INSERT INTO one VALUES(1, 'it''s'), (2, 'x;y')")
	dir := t.TempDir()
	file, all, one := filepath.Join(dir, "file"), filepath.Join(dir, "all.sql"), filepath.Join(dir, "one.sql")
	shell := func(input string) ended { return runInput(t, input, nil, "shell", sys.Orchestrator, "--mode=csv") }

	got := shell(".backup " + file + "\n.dump " + all + "\n.dump " + one + " one\nDROP TABLE one;\n.load " + one + "\nSELECT * FROM one;\n")
	got.expect(t, 0, "")
	if !strings.HasSuffix(got.stdout, "id,name\n1,it's\n2,x;y\n") {
		t.Errorf("after .load: got %q, want the rows of before", got.stdout)
	}
	shell(".load "+file).expect(t, 1, "has rows")
	got = shell("DROP TABLE one;\n.load " + file + "\nSELECT * FROM one;\n.status\n")
	got.expect(t, 0, "")
	if !strings.Contains(got.stdout, "id,name\n1,it's\n2,x;y\n") || !strings.Contains(got.stdout, "sqlite3") {
		t.Errorf("after .load of a file: got %q, want the rows of before and the status", got.stdout)
	}
	for name, begin := range map[string]string{file: "SQLite format 3\x00", all: "PRAGMA foreign_keys=OFF;\n", one: "PRAGMA foreign_keys=OFF;\n"} {
		if text, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(text), begin) {
			t.Errorf("%s: got %.20q, %v, want it to begin with %q", name, text, err, begin)
		}
	}
}

const terminalWidth = 60

// openTerminal starts a shell whose home is a folder.
func openTerminal(t *testing.T, home string, args ...string) *terminal {
	t.Helper()
	return openTerminalOf(t, "xterm", home, args...)
}

// openTerminalOf is openTerminal for another kind of terminal.
func openTerminalOf(t *testing.T, kind, home string, args ...string) *terminal {
	t.Helper()
	env := []string{"TERM=" + kind, "HOME=" + home, "RIDESHARE_HISTORY=", "RIDESHARE_PASSWORD="}
	return runInTerminal(t, terminalWidth, env, append([]string{"shell"}, args...)...)
}

// run types a statement and returns what comes before the next prompt.
func (term *terminal) run(t *testing.T, text string) string {
	t.Helper()
	term.enter(t, text)
	term.press(t, "\r")
	return term.await(t, "rideshare> ")
}

const (
	ctrlC   = "\x03"
	ctrlD   = "\x04"
	arrowUp = "\x1b[A"
)

func TestShell_Terminal_Session(t *testing.T) {
	sys := shared(t)
	home := t.TempDir()
	history := filepath.Join(home, ".rideshare_history")
	if err := os.WriteFile(history, []byte("SELECT 'older';\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	term := openTerminal(t, home, sys.Orchestrator)
	term.await(t, "Connected to "+sys.Orchestrator)
	term.await(t, "rideshare> ")

	term.enter(t, "SELECT 'dropped'")
	term.press(t, "\r")
	term.await(t, "   ...> ")
	term.enter(t, ", more")
	term.press(t, ctrlC)
	term.await(t, "rideshare> ")
	if got := term.run(t, "SELECT 40+2 AS answer;"); !strings.Contains(got, "| 42     |") || strings.Contains(got, "dropped") {
		t.Errorf("got %q, want 42 alone", got)
	}
	if got := term.run(t, "SELECT nix;"); !strings.Contains(got, "Error: no such column: nix") {
		t.Errorf("got %q, want the error without a line", got)
	}
	if got := term.run(t, "CREATE TABLE shell_t(a); INSERT INTO shell_t VALUES(1),(2); DROP TABLE shell_t;"); !strings.Contains(got, "2 rows affected") {
		t.Errorf("got %q, want the number of rows", got)
	}
	if got := term.run(t, "SELECT char(27)||'[31m' AS e;"); !strings.Contains(got, `| \x1b[31m |`) {
		t.Errorf("got %q, want the escape sequence as text", got)
	}
	got := term.run(t, "SELECT printf('%.*c',200,'x') AS w, '名前' AS n;")
	if !strings.Contains(got, "x… | 名前 |") {
		t.Errorf("got %q, want a shortened value", got)
	}
	for line := range strings.Lines(got) {
		if line = strings.TrimRight(line, "\r\n"); strings.HasPrefix(line, "|") && runewidth.StringWidth(line) > terminalWidth {
			t.Errorf("got %q, want at most %d characters", line, terminalWidth)
		}
	}
	term.press(t, ctrlD)
	term.ends(t)
	<-term.done
	if rest := term.out.String(); !strings.HasSuffix(rest, "\n") {
		t.Errorf("after Ctrl-D: got %q, want the end of the line", rest)
	}
	checkHistory(t, history, "SELECT 'older';\nSELECT 'dropped'\nSELECT 40+2 AS answer;\n")

	term = openTerminal(t, home, sys.Orchestrator)
	term.await(t, "rideshare> ")
	term.press(t, arrowUp)
	term.await(t, "AS n;")
	term.press(t, "\r")
	term.await(t, "x… | 名前 |")
	term.await(t, "rideshare> ")
	term.enter(t, ".quit")
	term.press(t, "\r")
	term.ends(t)
}

// On a terminal without line editing, Ctrl-C also drops the statement, even at an empty line, and the shell continues.
func TestShell_Terminal_Dumb_CtrlC(t *testing.T) {
	sys := shared(t)
	term := openTerminalOf(t, "dumb", t.TempDir(), sys.Orchestrator)
	term.await(t, "rideshare> ")
	term.press(t, ctrlC)
	term.await(t, "rideshare> ")
	term.enter(t, "SELECT 'dropped'")
	term.press(t, "\r")
	term.await(t, "   ...> ")
	term.enter(t, ", 'dropped too'")
	term.press(t, ctrlC)
	term.await(t, "rideshare> ")
	if got := term.run(t, "SELECT 40+2 AS answer;"); !strings.Contains(got, "| 42     |") || strings.Contains(got, "dropped") {
		t.Errorf("got %q, want 42 alone", got)
	}
	term.press(t, ctrlD)
	term.ends(t)
}

// checkHistory checks how the history file begins, and that only its owner may read it.
func checkHistory(t *testing.T, file, begin string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), begin) || info.Mode().Perm() != 0o600 {
		t.Errorf("history: got %q with mode %v, want it to begin with %q, mode 0600", text, info.Mode(), begin)
	}
}

// Ctrl-C cancels the request of the running statement and drops what follows in its line. The shell continues. The
// server is a stand-in, since only a stand-in can report that a statement runs.
func TestShell_Terminal_CtrlCCancelsStatement(t *testing.T) {
	running, canceled, authorization := make(chan struct{}), make(chan struct{}), make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization <- r.Header.Get("Authorization")
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body) // the client sends a complete body.
		if strings.Contains(body.String(), "endless") {
			close(running)
			<-r.Context().Done()
			close(canceled)
		}
		_, _ = fmt.Fprintf(w, `{"results":[{"columns":["n"],"values":[[%d]]}]}`, 12345)
	}))
	defer srv.Close()
	home := t.TempDir()
	term := openTerminal(t, home, srv.URL, "--user=ann")
	term.await(t, "Password of ann: ")
	term.awaitHidden(t)
	term.press(t, "s3cret\r")
	if got := term.await(t, "rideshare> "); strings.Contains(got, "s3cret") {
		t.Errorf("got %q, want no password on the screen", got)
	}
	if got := <-authorization; got != basic("ann", "s3cret") {
		t.Errorf("got Authorization %q, want ann's", got)
	}
	term.enter(t, "SELECT endless; SELECT following;")
	term.press(t, "\r")
	<-running
	term.press(t, ctrlC)
	if got := term.await(t, "rideshare> "); !strings.Contains(got, "Error: interrupted; a change that was under way may be done or not") || strings.Contains(got, "12345") {
		t.Errorf("got %q, want the interruption and no result", got)
	}
	<-canceled
	if got := term.run(t, "SELECT 1;"); !strings.Contains(got, "| 12345 |") {
		t.Errorf("after Ctrl-C: got %q, want a result", got)
	}
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.ends(t)
	checkHistory(t, filepath.Join(home, ".rideshare_history"), "SELECT endless; SELECT following;\nSELECT 1;\n")
}

// A history that is not a readable file is not changed, and the shell works.
func TestShell_Terminal_OtherHistory(t *testing.T) {
	sys := shared(t)
	dir := t.TempDir()
	pipe, broken, content := filepath.Join(dir, "pipe"), filepath.Join(dir, "broken"), "SELECT 1;\n\xff\n"
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, warning := range map[string]string{pipe: "", broken: "Warning: the history cannot be read and is left as it is: invalid string at line 2", dir: ""} {
		term := openTerminal(t, dir, sys.Orchestrator, "--history", file)
		if got := term.await(t, "rideshare> "); !strings.Contains(got, warning) || warning == "" && strings.Contains(got, "Warning") {
			t.Errorf("%s: got %q, want warning %q", file, got, warning)
		}
		term.run(t, "SELECT 1;")
		term.press(t, ctrlD)
		term.ends(t)
	}
	if text, err := os.ReadFile(broken); err != nil || string(text) != content {
		t.Errorf("the broken history: got %q, %v; want %q", text, err, content)
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode() != os.ModeNamedPipe|0o644 {
		t.Errorf("the pipe: got %v, %v; want it as it was", info.Mode(), err)
	}
}
