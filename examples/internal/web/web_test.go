package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/internal/testkit/testenv"
)

func TestAuthorization(t *testing.T) {
	for content, want := range map[string]string{"# c\nbearer t0ken\n": "Bearer t0ken", "user a b\nbasic ann:x y\n": "Basic YW5uOnggeQ==", "nothing": ""} {
		file := filepath.Join(t.TempDir(), "auth")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := authorization(file); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", content, got, err, want)
		}
	}
	if _, err := authorization(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if got, err := authorization(""); got != "" || err != nil {
		t.Errorf("no file wanted: got %q, %v", got, err)
	}
}

// A database that starts later is waited for, with one line that says what to start. A failed statement is a failure too.
func TestOpen_WaitsForTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []string // "": 503
		wait    time.Duration
		want    string // the error
		tries   int
	}{
		{"AtOnce", []string{"[{}]"}, 0, "", 1},
		{"Later", []string{"", "[{}]"}, time.Minute, "", 2},
		{"Never", []string{"", "[{}]"}, 0, "503", 1},
		{"WrongSchema", []string{`[{"error":"no such table"}]`}, 0, "no such table", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tries := 0
			database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answer := tt.answers[tries]
				if tries++; answer == "" {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, `{"results":`+answer+`}`)
			}))
			defer database.Close()
			var said strings.Builder
			log := slog.New(slog.NewTextHandler(&said, nil))
			_, err := Settings{Database: database.URL, Wait: tt.wait}.Open(t.Context(), "ann", db.SQL("CREATE"), log)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) || tries != tt.tries {
				t.Errorf("got %v after %d tries, want %q after %d", err, tries, tt.want, tt.tries)
			}
			lines := 1
			if tt.name == "AtOnce" {
				lines = 0
			}
			if strings.Count(said.String(), "rideshare up") != lines || strings.Count(said.String(), database.URL) != lines {
				t.Errorf("got %q, want %d lines that say what to start", said.String(), lines)
			}
		})
	}
}

// Every answer is JSON: those of the handlers, their errors, and those for paths and methods that have no handler.
func TestRoutes(t *testing.T) {
	h := Routes(map[string]Handler{
		"GET /goods/{id}": func(w http.ResponseWriter, r *http.Request) error {
			return Answer(w, http.StatusOK, db.Answer{Seq: "7", Cluster: "c", Cache: "HIT"}, r.PathValue("id"))
		},
		"GET /{$}": func(w http.ResponseWriter, _ *http.Request) error {
			return Answer(w, http.StatusOK, db.Answer{}, "root")
		},
		"POST /goods": func(_ http.ResponseWriter, r *http.Request) error {
			_, err := io.ReadAll(r.Body)
			return err
		},
	}, func(w http.ResponseWriter, err error) {
		Fail(w, http.StatusServiceUnavailable, 1500*time.Millisecond, err.Error())
	})
	for _, tt := range []struct {
		method, path string
		body         int
		status       int
		want         string
		header       map[string]string
	}{
		{"GET", "/goods/1", 0, 200, `"1"`, map[string]string{"X-Seq": "7", "X-Cluster-Id": "c", "X-Cache": "HIT", "X-Operation-Id": ""}},
		{"GET", "/livez", 0, 200, `{}`, map[string]string{"X-Seq": ""}},
		{"POST", "/goods", 64<<10 + 1, 503, `"http: request body too large"`, map[string]string{"Retry-After": "2"}},
		{"GET", "/nothing", 0, 404, `{"message":"Not Found"}`, map[string]string{"Retry-After": ""}},
		{"GET", "/goods//1", 0, 404, `{"message":"Not Found"}`, map[string]string{"Location": ""}},
		{"GET", "/x/../goods/1", 0, 404, `{"message":"Not Found"}`, map[string]string{"Location": ""}},
		{"GET", "/goods/1/", 0, 404, `{"message":"Not Found"}`, map[string]string{"Location": ""}},
		{"GET", "/goods/a%2F%2Fb", 0, 200, `"a//b"`, nil},
		{"GET", "/", 0, 200, `"root"`, nil},
		{"PUT", "/goods/1", 0, 405, `{"message":"Method Not Allowed"}`, map[string]string{"Allow": "GET, HEAD"}},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(strings.Repeat(" ", tt.body))))
		if w.Code != tt.status || strings.TrimSpace(w.Body.String()) != tt.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %d %s %v, want %d %s", tt.method, tt.path, w.Code, w.Body, w.Header(), tt.status, tt.want)
		}
		for name, want := range tt.header {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: got %s %q, want %q", tt.method, tt.path, name, got, want)
			}
		}
	}
}

// Only one object with known members, each once and with a value of its type, is a body. What is missing keeps its value.
func TestDecode(t *testing.T) {
	for body, want := range map[string]string{
		`{"n":7,"s":"x"}`: "7 x", ` {"s":"\u0078"} `: "1 x", `{}`: "1 ", ``: "1 ",
		`{"n":7,"n":7}`: `"n" is unknown or there twice`, `{"N":7}`: `"N" is unknown or there twice`, `{"s":null}`: `"s" has a wrong value`, `{"n":"7"}`: `"n" has a wrong value`,
		`null`: "not one JSON object", `[]`: "not one JSON object", `{}{}`: "not one JSON object", `{"n":7`: "not one JSON object", `{"n" 7}`: "not one JSON object", `{1:7}`: "not one JSON object",
		`{"n":7}` + strings.Repeat(" ", 100): "413 the body is too long",
	} {
		n, text := 1, ""
		err := Decode(http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(body)), 50), map[string]any{"n": &n, "s": &text})
		if got := fmt.Sprint(n, " ", text); (err == nil) != (got == want) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %q, %v, want %q", body, got, err, want)
		}
	}
}

// Retry-After is there when the client may try again, in whole seconds, and at least one.
func TestFail_RetryAfter(t *testing.T) {
	for _, tt := range []struct {
		status int
		after  time.Duration
		want   string
	}{{429, 0, "1"}, {429, 2500 * time.Millisecond, "3"}, {503, time.Nanosecond, "1"}, {409, time.Minute, ""}, {504, 0, ""}} {
		w := httptest.NewRecorder()
		Fail(w, tt.status, tt.after, struct{}{})
		if got := w.Header().Get("Retry-After"); w.Code != tt.status || got != tt.want {
			t.Errorf("%d after %v: got %d with %q, want %q", tt.status, tt.after, w.Code, got, tt.want)
		}
	}
}

// When ctx ends, the request in flight is answered, and no other.
func TestServe_AnswersTheRequestInFlight(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	began, release := make(chan struct{}), make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-release
			_ = Answer(w, http.StatusOK, db.Answer{}, "done")
		}), time.Minute)
	}()
	answered := make(chan string, 1)
	go func() {
		resp, failure := http.Get("http://" + listener.Addr().String())
		if failure != nil {
			answered <- failure.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		answered <- strings.TrimSpace(string(text))
	}()
	<-began
	end()
	<-refused(listener)
	close(release)
	if got := <-answered; got != `"done"` {
		t.Errorf("got %s, want the answer", got)
	}
	if err = <-served; err != nil {
		t.Error(err)
	}
}

// A client that does not take its answer is cut off a minute after the time of the longest request.
func TestServe_ClientThatDoesNotRead_IsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := testenv.Pipes{Conns: make(chan net.Conn)}
		ended := make(chan time.Time, 1)
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, pipes, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, 1<<20))
				ended <- time.Now()
			}), 10*time.Second)
		}()
		client, conn := net.Pipe()
		pipes.Conns <- conn
		start := time.Now()
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-ended:
			if took := at.Sub(start); took != 70*time.Second {
				t.Errorf("cut off after %v, want 1m10s", took)
			}
		case <-time.After(time.Hour):
			t.Error("not cut off in an hour")
		}
		_ = client.Close()
		end()
		close(pipes.Conns)
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// refused is closed once listener takes no connections any more. After half a minute another process has its port.
func refused(listener net.Listener) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return closed
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		if !Pause(ctx, time.Hour) {
			t.Error("got false, want a whole pause")
		}
		end()
		if Pause(ctx, time.Hour) {
			t.Error("ended: got true, want false")
		}
	})
}
