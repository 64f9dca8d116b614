// Package web has what the example services share: waiting for the database, serving HTTP until the process ends, and
// answering with JSON.
package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"rideshare/examples/internal/db"
)

// Settings are what every service needs to know about the database.
type Settings struct {
	Database, AuthFile string
	Wait               time.Duration // for a database that does not answer at the start
}

// Open returns a client of the database once create has made the missing tables, as other instances may do concurrently.
// It tries once a second, so that the database may start later than the service.
func (s Settings) Open(ctx context.Context, user string, create db.Statement, log *slog.Logger) (*db.Client, error) {
	header, err := authorization(s.AuthFile)
	if err != nil {
		return nil, fmt.Errorf("--auth-file: %w", err)
	}
	client, limit := db.New(s.Database, user, header), time.Now().Add(s.Wait)
	for tries := 1; ; tries++ {
		answer, failure := client.Execute(ctx, db.Options{}, create)
		if failure = cmp.Or(failure, answer.Err()); failure == nil {
			return client, nil
		}
		if tries == 1 {
			log.Warn("no database yet; start one with: go run ./cmd/rideshare up", "url", s.Database, "error", failure)
		}
		if !time.Now().Before(limit) || !Pause(ctx, time.Second) {
			return nil, failure
		}
	}
}

// authorization returns the Authorization header for the first line "bearer TOKEN" or "basic USER:PASSWORD" of a file; ""
// if file is "".
func authorization(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // The user names the file.
	for line := range strings.Lines(string(text)) {
		switch kind, secret, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "bearer":
			return "Bearer " + secret, nil
		case "basic":
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(secret)), nil
		}
	}
	return "", cmp.Or(err, fmt.Errorf("%s has no line 'bearer TOKEN' or 'basic USER:PASSWORD'", file))
}

// answerTime is how long a client may take for an answer, in addition to the time of the request.
const answerTime = time.Minute

// Serve answers requests until ctx ends, and then those in flight, for at most rest: the time of the longest request.
func Serve(ctx context.Context, listener net.Listener, h http.Handler, rest time.Duration) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: rest + answerTime, IdleTimeout: 2 * time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	_ = server.Shutdown(end) // Requests that take longer end with the process.
	return nil
}

// Handler answers a request, or returns an error.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Routes answers requests by handlers, whose names are patterns of http.ServeMux, and GET /livez. fail writes the answer to
// an error. A path without a handler gets 404, even if it is only another spelling of a path that has one. A path that has
// handlers only for other methods gets 405.
func Routes(handlers map[string]Handler, fail func(http.ResponseWriter, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _ = Answer(w, http.StatusOK, db.Answer{}, struct{}{}) })
	for pattern, handle := range handlers {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
			if err := handle(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked := r.URL.EscapedPath(); strings.TrimSuffix(asked, "/") != strings.TrimSuffix(path.Clean(asked), "/") {
			refusal{w}.WriteHeader(http.StatusNotFound) // The mux would redirect it.
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			w = refusal{w}
		}
		mux.ServeHTTP(w, r)
	})
}

// refusal gives the mux's own answers, 404 and 405, the form of an error.
type refusal struct{ http.ResponseWriter }

func (w refusal) Write(text []byte) (int, error) { return len(text), nil }

func (w refusal) WriteHeader(status int) {
	Fail(w.ResponseWriter, status, 0, map[string]string{"message": http.StatusText(status)})
}

// Answer answers with JSON. It passes on the position of the database's answer from, and where that answer came from. The
// error is always nil: a handler can return it.
func Answer(w http.ResponseWriter, status int, from db.Answer, body any) error {
	for name, value := range map[string]string{"X-Seq": from.Seq, "X-Cluster-Id": from.Cluster, "X-Cache": from.Cache, "X-Operation-Id": from.Operation} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The client may be gone.
	return nil
}

// Fail answers with an error. After 429 and 503 the client may try again: Retry-After says when, at the earliest in a second.
func Fail(w http.ResponseWriter, status int, retryAfter time.Duration, body any) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", fmt.Sprint(math.Ceil(max(time.Second, retryAfter).Seconds())))
	}
	_ = Answer(w, status, db.Answer{}, body) // always nil
}

// Pause waits for d. It reports false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
