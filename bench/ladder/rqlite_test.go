package ladder

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// standIn writes a program that stands for rqlited, and returns its path and a folder for nodes.
func standIn(t *testing.T, script string) (program, dir string) {
	t.Helper()
	dir = t.TempDir()
	program = filepath.Join(dir, "rqlited")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, dir
}

// said waits until a node has written a text to its log.
func said(t *testing.T, dir, node, text string) {
	t.Helper()
	testenv.Eventually(t, time.Minute, func() error {
		log, err := os.ReadFile(filepath.Join(dir, node+".log"))
		if err == nil && !strings.Contains(string(log), text) {
			err = fmt.Errorf("got %q, want %q", log, text)
		}
		return err
	})
}

// The error of a node that does not start has its arguments, how it ended, and the end of its log.
func TestServeRqlite_NodeEnds_IsTold(t *testing.T) {
	program, dir := standIn(t, "seq 20; echo no room >&2; exit 3")
	s := &serving{cfg: ServeConfig{Rqlite: program, Dir: dir}}
	p, _ := pathOf(pathRqlite)
	_, err := p.serve(t.Context(), s, p)
	if err = errors.Join(err, s.close(t.Context())); err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{program, "-node-id rqlite-1", "-http-addr 127.0.0.1:", "-raft-addr 127.0.0.1:", dir + "/rqlite-1", "exit status 3", "rqlite-1.log: 17\n", "\nno room"} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("got %v, want %q once", err, want)
		}
	}
}

// Nodes that have no leader in time are told with the ends of their logs, and end.
func TestRqlite_NoLeader_IsToldAndNodesEnd(t *testing.T) {
	program, dir := standIn(t, `echo "$@"; echo no leader; exec tail -f /dev/null`)
	c, err := startRqlite(t.Context(), program, dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"rqlite-1", "rqlite-2", "rqlite-3"}
	for _, node := range nodes {
		said(t, dir, node, "no leader")
		said(t, dir, node, "-bootstrap-expect 3 -join 127.0.0.1:")
	}
	if got := len(children(os.Getpid())); got < len(nodes) {
		t.Errorf("got %d processes, want %d", got, len(nodes))
	}
	_, err = c.await(time.Nanosecond)
	if err == nil || !strings.Contains(err.Error(), "not ready within 1ns") || strings.Count(err.Error(), "\nno leader") != len(nodes) {
		t.Errorf("got %v, want what was waited for, and the logs", err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	for pid, argument := range children(os.Getpid()) {
		if argument == "-f" {
			t.Errorf("%d still runs", pid)
		}
	}
}

// A node that ends during the measurements makes the end an error, for its figures are those of another system.
func TestRqlite_NodeEndsLater_IsTold(t *testing.T) {
	program, dir := standIn(t, "echo disk full; exit 1")
	c, err := startRqlite(t.Context(), program, dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.ready = true
	<-c.ctx.Done()
	if err := c.close(); !errors.Is(err, errNodeEnded) || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v, want that a node ended, and why", err)
	}
}

// fakeNodes is the API of some nodes of rqlite.
type fakeNodes struct {
	total, leader int    // the number of the leader
	unreachable   string // the number of a node
	behind        string
}

func (f fakeNodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base := "http://" + r.Host
	if r.URL.Path != "/nodes" {
		if strings.HasPrefix(r.URL.Path, "/"+f.behind+"/") || !r.URL.Query().Has("sync") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	var nodes []map[string]any
	for i := range f.total {
		id := fmt.Sprint(i + 1)
		nodes = append(nodes, map[string]any{"id": id, "api_addr": base + "/" + id, "reachable": id != f.unreachable, "leader": i+1 == f.leader, "voter": true})
	}
	if r.URL.Query().Get("ver") == "2" {
		_ = json.NewEncoder(w).Encode(map[string]any{"nodes": nodes}) // a test's answer.
	}
}

// Requests go to the leader, once all nodes are there and have its log.
func TestRqliteLeader(t *testing.T) {
	for name, test := range map[string]struct {
		fakeNodes
		want string
	}{
		"One":         {fakeNodes{total: 1, leader: 1}, ""},
		"Second":      {fakeNodes{total: 3, leader: 2}, "/2"},
		"None":        {fakeNodes{total: 3}, ""},
		"Unreachable": {fakeNodes{total: 3, leader: 2, unreachable: "3"}, ""},
		"Behind":      {fakeNodes{total: 3, leader: 2, behind: "1"}, ""},
	} {
		server := httptest.NewServer(test.fakeNodes)
		defer server.Close()
		got, err := rqliteLeader(t.Context(), server.URL, 3)
		if test.want == "" && err == nil || test.want != "" && got != server.URL+test.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
		}
	}
}

// Before each measurement the requests are turned to the node that leads now; the path has no read cache and no lag.
func TestSettle_Rqlite_FollowsTheLeader(t *testing.T) {
	target := serveTarget(t, pathRqlite3, fakeNodes{total: 3, leader: 3})
	target.touched = false
	first := target.addresses.Database
	if err := target.settle(t.Context()); err != nil || target.addresses.Database != first+"/3" {
		t.Errorf("got %q, %v, want the third node", target.addresses.Database, err)
	}
}

// The rows of the writes are counted by a statement that sees all of them.
func TestSettle_Rqlite_CountsTheRows(t *testing.T) {
	var asked []string
	target := serveTarget(t, pathRqlite, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		_, _ = w.Write([]byte(`{"results":[{"columns":["count(*)"],"types":["integer"],"values":[[7]]}]}`)) // a test's answer.
	}))
	got, err := target.written(t.Context())
	if want := []string{"/db/query?level=linearizable"}; err != nil || got != 7 || !slices.Equal(asked, want) {
		t.Errorf("got %d, %v after %q, want 7 after %q", got, err, asked, want)
	}
}
