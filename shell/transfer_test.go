package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/testenv"
)

// A backup is the whole answer or nothing: not half of it, and not in the place of another backup.
func TestBackup_WholeOrNothing(t *testing.T) {
	s := newServer(t)
	var queries []string
	cut := false
	s.other = func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Path+"?"+r.URL.RawQuery)
		_, _ = io.WriteString(w, "half")
		if cut {
			_ = http.NewResponseController(w).Flush() // the stand-in's own connection.
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, " and half")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "b.db")
	s.run(t, ".backup "+file).done(t, "")
	s.run(t, ".dump "+filepath.Join(dir, "d.sql")+" a,b\n.dump "+filepath.Join(dir, "e.sql")).done(t, "")
	if diff := cmp.Diff([]string{"/db/backup?", "/db/backup?fmt=sql&tables=a%2Cb", "/db/backup?fmt=sql"}, queries); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	cut = true
	write(t, file, "the old backup")
	s.run(t, ".backup "+file).failed(t, "is not written: ")
	s.run(t, ".backup "+filepath.Join(dir, "new.db")).failed(t, "is not written: ")
	s.run(t, ".backup "+dir).failed(t, "is not a regular file")
	s.run(t, ".backup "+filepath.Join(dir, "none", "b.db")).failed(t, "no such file")
	if text := content(t, file); text != "the old backup" {
		t.Errorf("after a cut answer: got %q, want the old backup", text)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	hidden, hiddenErr := filepath.Glob(filepath.Join(dir, ".*"))
	if err = errors.Join(err, hiddenErr); err != nil || len(names) != 3 || len(hidden) != 0 {
		t.Errorf("got files %v %v, %v; want b.db, d.sql, e.sql", names, hidden, err)
	}
}

func TestLoad(t *testing.T) {
	s := newServer(t)
	var got []string
	keys := map[string]bool{}
	answer, status := `{"results":[{"rows_affected":1}]}`, http.StatusOK
	s.other = func(w http.ResponseWriter, r *http.Request) {
		text := "not read"
		if status == http.StatusOK {
			body, _ := io.ReadAll(r.Body) // its length is compared.
			text = fmt.Sprint(len(body))
		}
		keys[r.Header.Get("Idempotency-Key")] = true
		got = append(got, r.Method+" "+r.URL.Path+" "+text+" "+r.Header.Get("Expect"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}
	file := filepath.Join(t.TempDir(), "big.sql")
	write(t, file, strings.Repeat("-- a long file\n", 1<<20))
	s.run(t, ".load "+file).done(t, "")
	answer = `{"results":[{"error":"it fails"}]}`
	s.run(t, ".load "+file).failed(t, "it fails")
	answer, status = `{"detail":"too large, see rideshare restore","code":"too_large"}`, http.StatusRequestEntityTooLarge
	s.run(t, ".load "+file).failed(t, "too large, see rideshare restore (HTTP 413)")
	s.run(t, ".load "+file+"x").failed(t, "no such file")
	s.run(t, ".load "+filepath.Dir(file)).failed(t, "is not a regular file")
	if len(keys) != 3 || keys[""] {
		t.Errorf("got keys %v, want one for each load", keys)
	}
	read := fmt.Sprintf("POST /db/load %d 100-continue", 15<<20)
	if diff := cmp.Diff([]string{read, read, "POST /db/load not read 100-continue"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A load without an answer is sent once more, whole and under its key, and what the answer says then counts. The shell says that the
// outcome is unknown unless an answer tells it.
func TestLoad_NoAnswer_IsSentOnceMoreUnderItsKey(t *testing.T) {
	t.Parallel()
	const done, failure = `{"results":[{"rows_affected":1}]}`, `{"results":[{"error":"it fails"}]}`
	for name, tt := range map[string]struct {
		answers []string // "" breaks the connection, "gone" also ends the server, three digits are a status
		fails   string   // part of the error, "" for none
		unknown bool     // the error says so
	}{
		"at once":              {answers: []string{done}},
		"fails":                {answers: []string{failure}, fails: "it fails"},
		"refused":              {answers: []string{"503"}, fails: "(HTTP 503)"},
		"lost":                 {answers: []string{"", done}},
		"cut":                  {answers: []string{"{", done}},
		"timed out":            {answers: []string{"504", done}},
		"lost, then fails":     {answers: []string{"", failure}, fails: "it fails"},
		"lost, then refused":   {answers: []string{"", "409"}, fails: "(HTTP 409)", unknown: true},
		"lost twice":           {answers: []string{"", ""}, fails: "no answer", unknown: true},
		"timed out twice":      {answers: []string{"504", "504"}, fails: "(HTTP 504)", unknown: true},
		"lost with its server": {answers: []string{"gone"}, fails: "connection refused", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.other = func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // it is compared.
				s.mu.Lock()
				answer := tt.answers[min(len(s.sent), len(tt.answers)-1)]
				s.sent = append(s.sent, r.Header.Get("Idempotency-Key")+" "+string(body))
				s.mu.Unlock()
				status, err := strconv.Atoi(answer)
				switch {
				case answer == "gone":
					_ = s.Listener.Close() // the server's end closes it too.
					panic(http.ErrAbortHandler)
				case answer == "":
					panic(http.ErrAbortHandler)
				case err == nil:
					w.WriteHeader(status)
				default:
					_, _ = io.WriteString(w, answer)
				}
			}
			file := filepath.Join(t.TempDir(), "a.sql")
			write(t, file, "INSERT INTO a VALUES(1);")
			ran := s.run(t, ".load "+file)
			if tt.fails == "" {
				ran.done(t, "")
			} else {
				ran.failed(t, tt.fails)
			}
			if unknown := strings.Contains(ran.errs, errUnknown.Error()); unknown != tt.unknown {
				t.Errorf("got %q, want that the outcome is unknown: %t", ran.errs, tt.unknown)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.sent; len(got) != len(tt.answers) || len(got[0]) <= len(" INSERT INTO a VALUES(1);") || got[len(got)-1] != got[0] || !strings.HasSuffix(got[0], " INSERT INTO a VALUES(1);") {
				t.Errorf("got requests %q, want %d equal ones with a key and the file", got, len(tt.answers))
			}
		})
	}
}

// A backup and a load may take longer to be answered than a statement.
func TestTransfers_MayTakeLonger(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a")
	for line, fails := range map[string]bool{"slow;": true, ".backup " + file: false, ".dump " + file: false, ".load " + file: false} {
		write(t, file, "SELECT 1;")
		synctest.Test(t, func(t *testing.T) {
			slow := func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(10 * time.Minute)
				_, _ = io.WriteString(w, `{"results":[]}`)
			}
			s := &server{answers: map[string]string{"slow": "other"}, other: slow}
			pipes := testenv.Pipes{Conns: make(chan net.Conn)}
			web := &http.Server{Handler: http.HandlerFunc(s.serve)}
			go func() { _ = web.Serve(pipes) }() // ends with pipes.
			piped := func(limit func(*http.Transport)) *http.Transport {
				transport := limited(limit)
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					client, conn := net.Pipe()
					pipes.Conns <- conn
					return client, nil
				}
				return transport
			}
			statements, transfers := piped(Limit), piped(LimitTransfers)
			s.Server = &httptest.Server{URL: "http://orchestrator"}
			ran := s.run(t, line, func(c *Config) { c.Transport, c.Transfers = statements, transfers })
			if fails {
				ran.failed(t, "timeout awaiting response headers; "+errUnknown.Error())
			} else {
				ran.done(t, "")
			}
			statements.CloseIdleConnections()
			transfers.CloseIdleConnections()
			close(pipes.Conns)
			_ = web.Close()       // it serves nothing any more.
			time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
		})
	}
}
