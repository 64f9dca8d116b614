package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/httpapi"
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

// piped runs do in a bubble, with a server that is reached through pipes and a transport to it for each limit. other answers
// what is not a statement, and the statement "slow".
func piped(t *testing.T, other http.HandlerFunc, do func(t *testing.T, s *server, transport func(limit func(*http.Transport)) *http.Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: map[string]string{"slow": "other"}, other: other}
		s.Server = &httptest.Server{URL: "http://orchestrator"}
		pipes := testenv.Pipes{Conns: make(chan net.Conn)}
		web := &http.Server{Handler: http.HandlerFunc(s.serve)}
		go func() { _ = web.Serve(pipes) }() // ends with pipes.
		var all []*http.Transport
		do(t, s, func(limit func(*http.Transport)) *http.Transport {
			transport := limited(limit)
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
				client, conn := net.Pipe()
				pipes.Conns <- conn
				return client, nil
			}
			all = append(all, transport)
			return transport
		})
		for _, transport := range all {
			transport.CloseIdleConnections()
		}
		close(pipes.Conns)
		_ = web.Close()       // it serves nothing any more.
		time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
	})
}

// A backup and a load may take longer to be answered than a statement, and longer than the server may be silent.
func TestTransfers_MayTakeLonger(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a")
	for line, fails := range map[string]bool{"slow;": true, ".backup " + file: false, ".dump " + file: false, ".load " + file: false} {
		write(t, file, strings.Repeat("SELECT 1;\n", 40_000))
		slow := func(w http.ResponseWriter, r *http.Request) {
			for left := int64(1); left > 0; time.Sleep(50 * time.Second) {
				left, _ = io.CopyN(io.Discard, r.Body, 100<<10)
			}
			time.Sleep(10 * time.Minute)
			for _, piece := range []string{`{"results"`, `:`, `[]}`} {
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush() // the stand-in's own connection.
				time.Sleep(50 * time.Second)
			}
		}
		piped(t, slow, func(t *testing.T, s *server, transport func(func(*http.Transport)) *http.Transport) {
			t.Helper()
			ran := s.run(t, line, func(c *Config) { c.Transport, c.Transfers = transport(Limit), transport(LimitTransfers) })
			if fails {
				ran.failed(t, "timeout awaiting response headers; "+errUnknown.Error())
			} else {
				ran.done(t, "")
			}
		})
	}
}

// A server that is silent for a minute in the middle of a backup or a load ends it, and no part of the backup is left.
func TestTransfers_SilentServer_Fail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.sql")
	write(t, file, strings.Repeat("-- a long file\n", 1<<18))
	for line, want := range map[string]string{
		"slow;":                              "the server has sent and taken nothing for 1m0s",
		".backup " + filepath.Join(dir, "b"): "b is not written: the server has sent and taken nothing for 1m0s",
		".dump " + filepath.Join(dir, "d"):   "d is not written: the server has sent and taken nothing for 1m0s",
		".load " + file:                      "no answer from http://orchestrator: the server has sent and taken nothing for 1m0s; " + errUnknown.Error(),
	} {
		paused := func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/db/load" {
				_, _ = io.WriteString(w, `{"results":[`)
				_ = http.NewResponseController(w).Flush() // the stand-in's own connection.
			}
			time.Sleep(20 * time.Minute)
			panic(http.ErrAbortHandler)
		}
		piped(t, paused, func(t *testing.T, s *server, transport func(func(*http.Transport)) *http.Transport) {
			t.Helper()
			began := time.Now()
			s.run(t, line, func(c *Config) { c.Transport, c.Transfers = transport(Limit), transport(LimitTransfers) }).failed(t, want)
			if took := time.Since(began); took > 3*time.Minute {
				t.Errorf("%s ended after %v, want at most 3 minutes", line, took)
			}
		})
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("got files %v, %v; want a.sql", names, err)
	}
}

// A transport may read the end of the request's body when the answer has begun. The silence of the server counts as before.
func TestTransfers_BodyEndsAfterTheAnswer_SilentServerFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client := transfersOf(tripper(func(r *http.Request) (*http.Response, error) {
			go func() { // ends with the body
				time.Sleep(time.Second)
				_, _ = io.Copy(io.Discard, r.Body)
			}()
			answer, end := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = end.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: http.StatusOK, Body: answer}, nil
		}))
		resp, err := client.Post("http://orchestrator", "text/plain", strings.NewReader("SELECT 1"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		if took := time.Since(began); !errors.Is(err, errSilent) || took != pieceTimeout {
			t.Errorf("got %v after %v, want %q after %v", err, took, errSilent, pieceTimeout)
		}
		_ = resp.Body.Close()
	})
}

// tripper is a function as a transport.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that does not answer ends a backup, but later.
func TestTransfers_NoAnswer_Fail(t *testing.T) {
	t.Parallel()
	paused := func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Minute) }
	piped(t, paused, func(t *testing.T, s *server, transport func(func(*http.Transport)) *http.Transport) {
		t.Helper()
		_, err := Backup(t.Context(), BackupConfig{URL: s.URL, Transport: transport(LimitTransfers), File: Stdout, Out: io.Discard})
		if want := "the server has sent and taken nothing for 15m0s"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
}

// sleepy is a writer that takes two minutes.
type sleepy struct{ strings.Builder }

func (w *sleepy) Write(p []byte) (int, error) {
	time.Sleep(2 * time.Minute)
	return w.Builder.Write(p)
}

// The silence of the server does not count while the backup waits for its own output.
func TestBackup_SlowOutput(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	whole := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(httpapi.HeaderCluster, "x")
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}
	piped(t, whole, func(t *testing.T, s *server, transport func(func(*http.Transport)) *http.Transport) {
		t.Helper()
		var out sleepy
		_, err := Backup(t.Context(), BackupConfig{URL: s.URL, Transport: transport(LimitTransfers), File: Stdout, Out: &out})
		if err != nil || out.Len() != size {
			t.Errorf("got %d bytes, %v; want %d", out.Len(), err, size)
		}
	})
}
