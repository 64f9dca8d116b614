package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/uptest"
)

// feed is a proxy in front of a database that can end the change feed.
type feed struct {
	proxy http.Handler

	mu      sync.Mutex // guards what follows
	after   []string   // the positions that were asked for
	queries int        // of all figures
	instead string     // the next feed begins here instead; "": where it should
	end     context.CancelFunc
	ended   chan struct{}
}

func newFeed(t *testing.T, database string) (*feed, string) {
	t.Helper()
	target, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{proxy: httputil.NewSingleHostReverseProxy(target)}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	if strings.Contains(string(body), "GROUP BY 1, 2, 3, 4, 5") {
		f.queries++
	}
	if r.URL.Path == "/api/v1/changes" {
		query := r.URL.Query()
		f.after = append(f.after, query.Get("after"))
		if f.instead != "" {
			query.Set("after", f.instead)
			r.URL.RawQuery, f.instead = query.Encode(), ""
		}
		var ctx context.Context
		ctx, f.end = context.WithCancel(r.Context())
		defer f.end()
		r = r.WithContext(ctx)
		ended := make(chan struct{})
		defer close(ended)
		f.ended = ended
	}
	f.mu.Unlock()
	f.proxy.ServeHTTP(w, r)
}

// cut ends the feed. The next feed begins at instead, unless that is "".
func (f *feed) cut(instead string) {
	f.mu.Lock()
	f.instead = instead
	end, ended := f.end, f.ended
	f.mu.Unlock()
	end()
	<-ended
}

// seen returns the positions that were asked for, and how often all figures were queried.
func (f *feed) seen() (after []string, queries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.after...), f.queries
}

// After a lost connection the dashboard resumes at its position, and ignores what it has seen. When the position is gone it
// queries again. In both cases its figures are the queries' answers.
func TestDashboard_LostConnection_ResumesOrAsksAgain(t *testing.T) {
	f, database := newFeed(t, uptest.Start(t))
	i := newInstance(t, database, nil)
	rides := 0
	ride := func() uint64 {
		r := i.want(t, "POST", post(1, 2025, 1+rides%2, 1+rides%3), fmt.Sprintf(`{"time":%d,"liftID":1}`, 1+rides*40), 201, "{}")
		rides++
		return seqOf(t, r)
	}
	follows := func() {
		t.Helper()
		testenv.Eventually(t, limit, func() error { return i.dashboardEquals(t, int64(rides), i.answers(t)) })
	}
	follows()
	ride()
	first := ride()
	follows()
	after, _ := f.seen()
	f.cut(after[0]) // Every event comes again.
	next := ride()
	ride()
	follows()
	after, queries := f.seen()
	if _, seq, _ := strings.Cut(after[1], ":"); len(after) != 2 || queries != 1 || db.Int(json.Number(seq)) < int64(first) || db.Int(json.Number(seq)) >= int64(next) {
		t.Errorf("lost connection: got feeds after %v and %d queries, want the second one at %d or later, before %d, and one query", after, queries, first, next)
	}
	f.cut(strings.Repeat("1", 32) + ":1") // It belongs to another data folder.
	ride()
	follows()
	if after, queries = f.seen(); len(after) != 4 || queries != 2 {
		t.Errorf("position gone: got feeds after %v and %d queries, want two of each more", after, queries)
	}
	ride()
	follows()
}

// answers asks the service what the dashboard shows, at its position.
func (i *instance) answers(t *testing.T) map[string]string {
	t.Helper()
	answers := map[string]string{}
	for day := 1; day <= 2; day++ {
		for _, what := range []string{"hours", "skiers"} {
			path := fmt.Sprintf("/resorts/1/seasons/2025/day/%d/%s", day, what)
			answers[path] = i.want(t, "GET", path, "", 200, "", "X-Min-Seq", fmt.Sprint(i.dashboard.shown()["seq"])).body
		}
	}
	return answers
}

// The figures can be sent while rides arrive. A change other than a new ride is not counted.
func TestDashboard_Shown_WhileRidesArrive(t *testing.T) {
	d := dashboard{days: map[day]*counts{}}
	event := func(seq uint64, op string) db.Event {
		key := map[string]any{"resort_id": json.Number("1"), "season_id": json.Number("2025"), "day_id": json.Number("1"), "skier_id": json.Number("1")}
		after := map[string]any{"ride_time": json.Number(strconv.FormatUint(1+60*(seq%20), 10))}
		return db.Event{Cluster: "c", Seq: seq, Changes: []db.Change{{Op: op, Key: key, After: after}}}
	}
	const rides = 1000
	var group sync.WaitGroup
	group.Go(func() {
		for seq := range uint64(rides) {
			if err := d.apply(event(1+seq, "insert")); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		if _, err := json.Marshal(d.shown()); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	if err := d.apply(event(rides+1, "delete")); err == nil {
		t.Error("a deleted ride: got no error, want the figures queried again")
	}
	if shown := d.shown(); shown["rides"] != int64(rides) || shown["seq"] != uint64(rides) {
		t.Errorf("got %v, want %d rides at that position", shown, rides)
	}
}

// A client that stops reading the live figures is cut off. A client that goes on reading is not.
func TestDashboard_Live_CutsOffOnlyWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		pipes := testenv.Pipes{Conns: make(chan net.Conn)}
		s := newService(ctx, config{ranges: defaultRanges(), batch: 1}, db.New("http://nobody", "skilift", ""))
		served := make(chan error, 1)
		go func() { served <- web.Serve(ctx, pipes, s, time.Second) }()
		dial := func() net.Conn {
			client, conn := net.Pipe()
			pipes.Conns <- conn
			if _, err := io.WriteString(client, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return client
		}
		stalled := dial()
		time.Sleep(liveLimit + time.Second) // of the fake clock
		if n, err := stalled.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("stalled: got %d bytes, %v, want the end", n, err)
		}
		reads, events := dial(), 0
		start := time.Now()
		for lines := bufio.NewScanner(reads); time.Since(start) < 5*time.Minute && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") {
				events++
			}
		}
		if events < 300 {
			t.Errorf("got %d events in %v, want one a second for five minutes", events, time.Since(start))
		}
		_ = reads.Close()
		end()
		close(pipes.Conns)
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
