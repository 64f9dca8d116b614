package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/internal/testkit/uptest"
)

func TestMain(m *testing.M) {
	os.Exit(uptest.Main(m, "../..")) //nolint:forbidigo // TestMain is the main of this binary.
}

// limit ends a broken run.
const limit = time.Minute

// instance is a service on a database.
type instance struct {
	*service

	url string
}

// newInstance starts a service on a database. change may change its settings.
func newInstance(t *testing.T, database string, change func(*config)) *instance {
	t.Helper()
	c := config{ranges: defaultRanges(), batch: 100, deadline: 20 * time.Second}
	if change != nil {
		change(&c)
	}
	c.Database, c.Wait = database, limit
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.Open(ctx, "skilift", createTables(c.ranges), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	s := newService(ctx, c, client)
	server := httptest.NewServer(s)
	ended := make(chan struct{})
	go func() {
		s.dashboard.run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.CloseClientConnections() // ends the streams of GET /live
		server.Close()
	})
	return &instance{s, server.URL}
}

// reply is an answer of a service.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends one request. header is names and values in turn.
func (i *instance) ask(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := i.try(t.Context(), method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (i *instance) try(ctx context.Context, method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, i.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, strings.TrimSpace(string(text))}, err
}

// want fails the test unless a request has this answer.
func (i *instance) want(t *testing.T, method, path, body string, status int, answer string, header ...string) reply { //nolint:revive // A request and its answer read best in one line.
	t.Helper()
	r := i.ask(t, method, path, body, header...)
	if r.status != status || (answer != "" && r.body != answer) {
		t.Errorf("%s %s %s: got %d %s, want %d %s", method, path, body, r.status, r.body, status, answer)
	}
	return r
}

// rows counts the rides of the database that meet a condition.
func (i *instance) rows(t *testing.T, condition string) int64 {
	t.Helper()
	a, err := i.db.Query(t.Context(), db.Options{Level: "strong"}, db.SQL("SELECT count(*) FROM ski_rides WHERE "+condition))
	if err != nil || a.Results[0].Error != "" {
		t.Fatalf("%v %v", a, err)
	}
	return db.Int(a.Results[0].Values[0][0])
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRun_CommandLine(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--help", 0, "-ranges"},
		{"--ingest later", exitUsage, "sync or async"},
		{"--batch 0", exitUsage, "--batch"},
		{"--ranges resort=5..1", exitUsage, "NAME=LOW..HIGH"},
		{"--ranges skier=70000..100000 --database http://127.0.0.1:1 --wait 1ns", exitFailed, "http://127.0.0.1:1"},
		{"--ranges lake=1..5", exitUsage, "NAME=LOW..HIGH"},
		{"--database http://127.0.0.1:1 --wait 1ns", exitFailed, "http://127.0.0.1:1"},
		{"--auth-file /does/not/exist", exitFailed, "--auth-file"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: got %d %s, want %d with %q", tt.args, code, &stderr, tt.code, tt.want)
		}
	}
}

// A service without a database waits, in one line that says what to start, until the end of its patience.
func TestRun_NoDatabase_SaysWhatToStart(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--database", server.URL, "--wait", "1ms"}, &stdout, &stderr)
	if said := stderr.String(); code != exitFailed || tries < 1 || strings.Count(said, "rideshare up") != 1 || !strings.Contains(said, server.URL) {
		t.Errorf("got %d after %d tries: %s", code, tries, said)
	}
}

func post(resort, season, day, skier int) string {
	return fmt.Sprintf("/skiers/%d/seasons/%d/days/%d/skiers/%d", resort, season, day, skier)
}

var dbOptions = db.Options{}

func sql(text string, values ...any) db.Statement { return db.SQL(text, values...) }

func seqOf(t *testing.T, r reply) uint64 {
	t.Helper()
	seq, err := strconv.ParseUint(r.header.Get("X-Seq"), 10, 64)
	if err != nil {
		t.Errorf("X-Seq: %v", err)
	}
	return seq
}
