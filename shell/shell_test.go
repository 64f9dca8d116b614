package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

// server is a stand-in for an orchestrator that speaks docs/API.md: it answers each statement with answers, else with
// no result, and notes what it was sent.
type server struct {
	*httptest.Server
	mu      sync.Mutex // guards the next three
	answers map[string]string
	sent    []string // statements, and "METHOD path?query body" of other requests
	levels  []string
	other   http.HandlerFunc // for all but /db/query and /db/request
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{answers: map[string]string{"SELECT 1": `{"columns":["1"],"values":[[1]]}`, "bad": `{"error":"no \u001b such"}`}}
	// No other process gets this port when the server is closed.
	s.Server = apitest.ServeAt(t, testenv.FreeAddress(t), http.HandlerFunc(s.serve))
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/db/query":
		_, _ = io.WriteString(w, `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}]}`)
	case "/db/request":
		var body [][]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body) != 1 || !r.URL.Query().Has("blob_array") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		sql := fmt.Sprint(body[0]...)
		s.mu.Lock()
		s.sent = append(s.sent, sql)
		s.levels = append(s.levels, r.URL.Query().Get("level"))
		answer, ok := s.answers[sql]
		s.mu.Unlock()
		if !ok {
			answer = "{}"
		}
		switch answer {
		case "panic":
			panic(http.ErrAbortHandler)
		case "other":
			s.other(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"results":[`+answer+`],"seq":7}`)
	default:
		s.other(w, r)
	}
}

// answer sets the answer to a statement.
func (s *server) answer(sql, result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[sql] = result
}

// ran is how a shell ended.
type ran struct {
	out, errs string
	err       error
}

// run runs a shell over the text.
func (s *server) run(t *testing.T, text string, change ...func(*Config)) ran {
	t.Helper()
	var out, errs strings.Builder
	cfg := Config{URL: s.URL, Transport: limited(Limit), Transfers: limited(LimitTransfers), Mode: "table", In: strings.NewReader(text), Out: &out, Err: &errs}
	for _, do := range change {
		do(&cfg)
	}
	err := Run(t.Context(), cfg)
	return ran{out.String(), errs.String(), err}
}

// failed checks that a shell failed, with a text in the errors.
func (r ran) failed(t *testing.T, want string) {
	t.Helper()
	if r.err == nil || !strings.Contains(r.errs, want) {
		t.Errorf("got %v, errors %q; want a failure with %q", r.err, r.errs, want)
	}
}

// done checks that a shell did not fail and printed want.
func (r ran) done(t *testing.T, want string) {
	t.Helper()
	if r.err != nil || r.errs != "" || r.out != want {
		t.Errorf("got %v, errors %q, output %q; want output %q", r.err, r.errs, r.out, want)
	}
}

func TestRun_Piped_ErrorsHaveLines(t *testing.T) {
	s := newServer(t)
	got := s.run(t, "-- first\nSELECT\n1;\n\nbad; SELECT 1;\n.nix\n.mode nix\nSELECT '\xff';\nSELECT 1")
	want := "Error near line 5: no \\x1b such\nError near line 6: there is no command .nix, .help lists them\n" +
		"Error near line 7: a mode is one of table, csv, json, line\nError near line 8: the statement is not UTF-8\n"
	got.failed(t, "line 5")
	if diff := cmp.Diff(want, got.errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"SELECT\n1", "bad", "SELECT 1", "SELECT 1"}, s.sent); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
	if want := strings.Repeat("+---+\n| 1 |\n+---+\n| 1 |\n+---+\n", 2); got.out != want {
		t.Errorf("got output %q, want %q", got.out, want)
	}
}

func TestRun_Bail_EndsAtFirstError(t *testing.T) {
	s := newServer(t)
	bail := func(c *Config) { c.Bail = true }
	s.run(t, "bad;\nSELECT 1;\n", bail).failed(t, "near line 1")
	file := filepath.Join(t.TempDir(), "a file.sql")
	write(t, file, "SELECT 1;\nbad;\nSELECT 1;")
	s.run(t, ".read '"+file+"'\nSELECT 1;\n", bail).failed(t, "Error in "+file+" near line 2: no")
	if diff := cmp.Diff([]string{"bad", "SELECT 1", "bad"}, s.sent); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}

func TestRun_Commands(t *testing.T) {
	s := newServer(t)
	command := func(text string) func(*Config) { return func(c *Config) { c.Command = &text } }
	s.run(t, "bad;", command(".mode csv\nSELECT 1;\n.quit\nbad;")).done(t, "1\n1\n")
	help := content(t, filepath.Join("testdata", "help"))
	s.run(t, ".help").done(t, help)
	for line := range strings.Lines(help) {
		if len(strings.TrimSpace(line)) > 80 {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
}

func TestRun_LevelAndTimer(t *testing.T) {
	s := newServer(t)
	got := s.run(t, "SELECT 1;\n.level strong\n.mode csv\n.timer on\nSELECT 1;\n.timer off\n.level none\nINSERT;\n")
	if diff := cmp.Diff([]string{"weak", "strong", "none"}, s.levels); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	if got.err != nil || strings.Count(got.out, "Run Time: real ") != 1 || !strings.Contains(got.out, "1\n1\nRun Time") {
		t.Errorf("got %v, output %q, want one time, after the second result", got.err, got.out)
	}
	for _, line := range []string{".level", ".level x", ".timer", ".timer maybe", ".mode", ".tables x", ".backup", ".dump a b c", ".schema 'a"} {
		s.run(t, line).failed(t, "Error near line 1: ")
	}
}

func TestRun_Catalog(t *testing.T) {
	s := newServer(t)
	const where = `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL` + users
	s.answer(where+` AND tbl_name=? COLLATE NOCASE ORDER BY rowid`+"T", `{"columns":["s"],"values":[["CREATE TABLE t(\n\ta)"]]}`)
	s.run(t, ".schema T").done(t, "CREATE TABLE t(\n\ta);\n")
	s.run(t, ".schema u").failed(t, "no such table: u")
	s.run(t, ".schema").done(t, "")
	s.answer(where+` ORDER BY rowid`, `{"columns":["s"],"values":[["CREATE TABLE t(a) STRICT /* x"],["CREATE VIEW v AS SELECT 1 -- x"]]}`)
	s.run(t, ".schema").done(t, "CREATE TABLE t(a) STRICT;\nCREATE VIEW v AS SELECT 1;\n")
}

func TestRun_Read_BoundsDepth(t *testing.T) {
	s := newServer(t)
	file := filepath.Join(t.TempDir(), "self")
	write(t, file, "SELECT 1;\n.read "+file)
	s.run(t, ".read "+file).failed(t, "files are read at most 16 deep")
	if len(s.sent) != maxNested {
		t.Errorf("got %d statements, want %d", len(s.sent), maxNested)
	}
	s.run(t, ".read "+file+"x").failed(t, "no such file")
}

func TestRun_MembersAndStatus(t *testing.T) {
	s := newServer(t)
	s.other = func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{
			"/api/v1/cluster": `{"members":[{"pid":3,"role":"master","container":"c\u001b","applied_seq":9,"lag":0}]}`,
			"/status":         `{"build":{"version":"v1"},"x":"` + "\u009b" + `"}`,
		}
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}
	s.run(t, ".mode csv\n.members").done(t, "pid,role,container,ready,applied_seq,lag\n3,master,c\x1b,,9,0\n")
	s.run(t, ".status").done(t, "{\n  \"build\": {\n    \"version\": \"v1\"\n  },\n  \"x\": \"\\u009b\"\n}\n")
}

func TestRun_Connect(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		want   string // the error, or "" for none
	}{
		"wrong credentials":     {http.StatusUnauthorized, `{"detail":"\u001bcredentials are missing or wrong"}`, `\x1bcredentials are missing or wrong (HTTP 401); --auth-file or --user give credentials`},
		"not ready":             {http.StatusServiceUnavailable, `{"detail":"no slave"}`, ""},
		"another server":        {http.StatusNotFound, `not here`, "is no orchestrator: Not Found (HTTP 404)"},
		"a page, not an answer": {http.StatusOK, `<html>`, "broke off or is not that of an orchestrator"},
		"redirect":              {http.StatusFound, ``, "is no orchestrator: Found (HTTP 302)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var authorization string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/db/query" {
					_, _ = io.WriteString(w, `{"results":[]}`)
					return
				}
				authorization = r.Header.Get("Authorization")
				w.Header().Set("Location", "/elsewhere") // of the redirect
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			err := Run(t.Context(), Config{URL: srv.URL, Transport: limited(Limit), Authorization: "Bearer x", In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if authorization != "Bearer x" {
				t.Errorf("got Authorization %q", authorization)
			}
		})
	}
}

// The end of the context ends the running statement and the shell.
func TestRun_Interrupted(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.other = func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	s.answer("endless", "other")
	var errs strings.Builder
	err := Run(ctx, Config{URL: s.URL, Transport: limited(Limit), Mode: "table", In: strings.NewReader("endless; SELECT 1;"), Out: io.Discard, Err: &errs})
	if !errors.Is(err, errInterrupted) || len(s.sent) != 1 || errs.Len() > 0 {
		t.Errorf("got %v, statements %q, errors %q; want interrupted in the first, without another error", err, s.sent, errs.String())
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// waitingInput gives a text, and then nothing until it is released.
type waitingInput struct {
	io.Reader
	waits    func()
	released <-chan struct{}
}

func (in *waitingInput) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if n == 0 {
		in.waits()
		<-in.released
	}
	return n, err
}

// A shell that waits for its input ends with its context, as at SIGTERM.
func TestRun_WaitingForInput_EndsWithContext(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	defer close(released)
	in := &waitingInput{strings.NewReader("SELECT 1;\n"), cancel, released}
	err := Run(ctx, Config{URL: s.URL, Transport: limited(Limit), Mode: "table", In: in, Out: io.Discard, Err: io.Discard})
	if !errors.Is(err, errInterrupted) || len(s.sent) != 1 {
		t.Errorf("got %v after %d statements, want interrupted after one", err, len(s.sent))
	}
}

// A server that breaks the connection may have done the statement.
func TestRun_LostAnswer_OutcomeIsUnknown(t *testing.T) {
	s := newServer(t)
	s.answer("INSERT", "panic")
	s.run(t, "INSERT;").failed(t, "Error near line 1: no answer from "+s.URL+": EOF; a change that was under way may be done or not")
	s.answer("INSERT", "{} half of an answer")
	s.run(t, "INSERT;").failed(t, "; "+errUnknown.Error())
	s.other = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "half") }
	if got := s.run(t, ".status"); !strings.Contains(got.errs, "broke off") || strings.Contains(got.errs, errUnknown.Error()) {
		t.Errorf(".status: got errors %q, want that the answer broke off, and no change", got.errs)
	}
	s.Close()
	if got := s.run(t, "INSERT;"); got.err == nil || strings.Contains(got.err.Error(), errUnknown.Error()) {
		t.Errorf("no server: got %v, want an error that is certain", got.err)
	}
}

// limited returns a transport with the time limits that limit sets.
func limited(limit func(*http.Transport)) *http.Transport {
	t := &http.Transport{}
	limit(t)
	return t
}
