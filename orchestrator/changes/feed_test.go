package changes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/feedtest"
)

const (
	path = "/api/v1/changes"
	id   = "01000000000000000000000000000000"
)

var ndjson = []string{"Accept", "application/x-ndjson"}

func next(t *testing.T, s *feedtest.Stream) feedtest.Event {
	t.Helper()
	e, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A consumer gets the commits after its position, old and new; without a position those from now on.
func TestFeed_Positions(t *testing.T) {
	for name, tc := range map[string]struct {
		target  string
		headers []string
		first   uint64
	}{
		"from the start":  {target: "?after=0", first: 1},
		"after":           {target: "?after=2", first: 3},
		"with cluster":    {target: "?after=" + id + ":1", first: 2},
		"last event id":   {target: "", headers: []string{"Last-Event-ID", id + ":2"}, first: 3},
		"id before after": {target: "?after=0", headers: []string{"Last-Event-ID", "2"}, first: 3},
		"now":             {target: "", first: 4},
		"at the head":     {target: "?after=3", first: 4},
		"lines":           {target: "?after=1", headers: ndjson, first: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPersdb()
				p.commit(3, 0)
				s := open(t, run(t, p, 0), path+tc.target, tc.headers...)
				synctest.Wait()
				p.commit(2, 0)
				wantCommits(t, s, tc.first, 5)
				p.commit(1, 0)
				wantCommits(t, s, 6, 6)
			})
		})
	}
}

// The bytes of events are those of docs/API.md, in both forms. A consumer that hears nothing for 10 s gets its position.
func TestFeed_Forms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		f := run(t, p, 0)
		events, lines := open(t, f, path), open(t, f, path, ndjson...)
		if got := events.Header.Get("X-Cluster-Id") + " " + events.Header.Get("X-Seq") + " " + events.Header.Get("Content-Type"); got != id+" 0 text/event-stream" {
			t.Errorf("got headers %s", got)
		}
		p.set(func() {
			at := time.UnixMilli(1700000000123)
			p.entries = append(p.entries, dbaas.Entry{Cluster: p.cluster, Seq: 1, Epoch: 3, At: at, Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte("DROP TABLE t")}}})
		})
		data := `{"cluster":"` + id + `","seq":1,"epoch":3,"time":"2023-11-14T22:13:20.123Z","changes":[{"op":"schema","sql":"DROP TABLE t"}]}`
		if got, want := next(t, events), (feedtest.Event{ID: id + ":1", Type: "commit", Data: data}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := next(t, lines).Data; got != data {
			t.Errorf("got %s, want %s", got, data)
		}
		began := time.Now()
		data = `{"cluster":"` + id + `","seq":1}`
		if got, want := next(t, events), (feedtest.Event{ID: id + ":1", Type: "position", Data: data}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := next(t, lines).Data; got != data {
			t.Errorf("got %s, want %s", got, data)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("got the position after %v", took)
		}
	})
}

// A page of the log that takes long, as one with a large commit, is read to its end.
func TestFeed_SlowPage_IsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		p.pieces = 30
		p.commit(1, 0)
		s := open(t, run(t, p, 0), path+"?after=0")
		wantCommits(t, s, 1, 1)
	})
}

// A page of the log that brings nothing is given up.
func TestFeed_StuckPage_IsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		p.slow = time.Minute
		p.commit(1, 0)
		if s := feedtest.Open(t.Context(), run(t, p, 0), path+"?after=0"); s.Status != http.StatusServiceUnavailable {
			t.Errorf("got %d %s, want 503", s.Status, s.Body)
		}
	})
}

// A consumer of some tables skips what has no match, and its position moves on.
func TestFeed_Tables_PositionMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		s := open(t, run(t, p, 0), path+"?tables=users,Rides")
		p.set(func() {
			for seq := range dbaas.Seq(5) {
				p.entries = append(p.entries, dbaas.Entry{Cluster: p.cluster, Seq: seq + 1, Epoch: 1})
			}
		})
		if got := next(t, s); got.ID != id+":5" || got.Type != "position" {
			t.Errorf("got %+v, want position 5", got)
		}
		p.commit(1, 0)
		wantCommits(t, s, 6, 6)
	})
}

// A position that cannot be read on from is 410 with what can, in a body that ends with a newline.
func TestFeed_Gone(t *testing.T) {
	p := newPersdb()
	p.first = 5
	p.commit(3, 0)
	f := run(t, p, 0)
	for target, reason := range map[string]string{
		"?after=3": "no longer has", "?after=8": "after the newest", "?after=02000000000000000000000000000000:5": "another cluster", "?after=" + id + ":0": "no longer has",
	} {
		s := feedtest.Open(t.Context(), f, path+target)
		var got map[string]any
		if err := json.Unmarshal([]byte(s.Body), &got); err != nil {
			t.Fatalf("%v in %s", err, s.Body)
		}
		detail, _ := got["detail"].(string)
		if s.Status != http.StatusGone || got["code"] != "gone" || got["oldest_seq"] != 5.0 || got["head_seq"] != 7.0 || got["cluster_id"] != id ||
			!strings.Contains(detail, reason) || s.Header.Get("Content-Type") != "application/problem+json" || !strings.HasSuffix(s.Body, "}\n") {
			t.Errorf("%s: got %d %q", target, s.Status, s.Body)
		}
	}
	wantCommits(t, open(t, f, path+"?after=4"), 5, 7)
}

// What is no request is refused, and not ignored.
func TestFeed_BadRequest(t *testing.T) {
	f := run(t, newPersdb(), 0)
	for _, target := range []string{"?after=", "?after=x", "?after=-1", "?after=1:2", "?after=" + id, "?after=" + id + ":", "?tables=", "?tables=a,,b", "?after=0&after=0", "?since=1", "?%zz"} {
		if s := feedtest.Open(t.Context(), f, path+target); s.Status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", target, s.Status, s.Body)
		}
	}
	if s := feedtest.Open(t.Context(), f, path, "Last-Event-ID", "x"); s.Status != http.StatusBadRequest {
		t.Errorf("Last-Event-ID: got %d, want 400", s.Status)
	}
}

// A consumer that takes nothing is cut off after 10 s, and gets everything when it resumes. Others do not notice.
func TestFeed_SlowConsumer_IsCutAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		f := run(t, p, 0)
		slow, quick := open(t, f, path), open(t, f, path)
		p.commit(1, 10)
		last := next(t, slow).ID
		p.commit(25, 100_000) // the window and what a stream holds are too small for it
		began := time.Now()
		wantCommits(t, quick, 1, 26)
		slow.Gone()
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("cut off after %v, want 10 s", took)
		}
		if got := f.Status(); got.Cuts["stall"] != 1 || got.Streams != 1 || got.Events < 27 {
			t.Errorf("got %+v", got)
		}
		wantCommits(t, open(t, f, path, "Last-Event-ID", last), 2, 26)
	})
}

// A consumer that takes a little now and then is not cut off, and misses nothing, though it falls out of the window.
func TestFeed_ConsumerFallsBehind_ReadsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		s := open(t, run(t, p, 0), path)
		for i := range uint64(10) {
			p.commit(10, 50_000)
			time.Sleep(8 * time.Second)
			wantCommits(t, s, i+1, i+1)
		}
		wantCommits(t, s, 11, 100)
	})
}

// All streams at the head share one poll. Of those that are behind, two read at a time.
func TestFeed_Reads_AreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		p.slow = time.Second
		p.commit(4, 400_000)
		f := run(t, p, 0)
		done := make(chan struct{})
		for range 6 {
			go func() {
				defer func() { done <- struct{}{} }()
				s := feedtest.Open(t.Context(), f, path+"?after=0")
				defer s.Close()
				wantCommits(t, s, 1, 6)
			}()
		}
		time.Sleep(10 * time.Second)
		p.commit(1, 0)
		time.Sleep(10 * time.Second)
		p.commit(1, 0)
		for range 6 {
			<-done
		}
		if p.maxReads != 2 || p.maxPolls != 1 {
			t.Errorf("got %d reads and %d polls at once, want 2 and 1", p.maxReads, p.maxPolls)
		}
		time.Sleep(time.Minute)
		if p.polls != 0 {
			t.Errorf("%d polls without a stream", p.polls)
		}
	})
}

// One stream more than allowed is 503; when a stream ends, its place is free.
func TestFeed_TooManyStreams_503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, newPersdb(), 64)
		first := open(t, f, path)
		for range 63 {
			open(t, f, path)
		}
		s := feedtest.Open(t.Context(), f, path)
		if s.Status != http.StatusServiceUnavailable || s.Header.Get("Retry-After") == "" {
			t.Errorf("got %d %v, want 503 with Retry-After", s.Status, s.Header)
		}
		first.Close()
		open(t, f, path)
	})
}

// While persdb is away, streams stay open, and miss nothing; new ones are 503.
func TestFeed_PersdbAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPersdb()
		f := run(t, p, 0)
		s := open(t, f, path)
		p.set(func() { p.err = dbaas.ErrUnavailable })
		if got := next(t, s); got.Type != "position" {
			t.Errorf("got %+v, want a position", got)
		}
		for _, target := range []string{path, path + "?after=0"} {
			if refused := feedtest.Open(t.Context(), f, target); refused.Status != http.StatusServiceUnavailable {
				t.Errorf("%s: got %d, want 503", target, refused.Status)
			}
		}
		p.set(func() { p.err = nil })
		p.commit(3, 0)
		wantCommits(t, s, 1, 3)
	})
}

// If the log becomes another one, is shorter, or cannot be read, each stream ends, and the consumer is told when it
// resumes. If the streams only fell behind, they go on.
func TestFeed_LogChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p *persdb)
		gone   bool
	}{
		"another cluster": {func(p *persdb) { p.cluster = dbaas.ClusterID{2} }, true},
		"shorter":         {func(p *persdb) { p.entries = p.entries[:1] }, true},
		"trimmed":         {func(p *persdb) { p.entries, p.first = nil, 10 }, true},
		"without feed": {func(p *persdb) {
			e := dbaas.Entry{Cluster: p.cluster, Seq: 4, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: []byte("Tt\x01\x00I\x01\x00")}}}
			p.entries = append(p.entries, e, dbaas.Entry{Cluster: p.cluster, Seq: 5, Epoch: 1})
		}, true},
		"longer": {func(p *persdb) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPersdb()
				p.commit(3, 0)
				f := run(t, p, 0)
				s := open(t, f, path+"?after=2")
				wantCommits(t, s, 3, 3)
				synctest.Wait()
				p.set(func() { tc.change(p) })
				if !tc.gone {
					p.commit(1, 0)
					wantCommits(t, s, 4, 4)
					return
				}
				var last feedtest.Event
				for e, err := s.Next(); err == nil; e, err = s.Next() {
					if last = e; e.Type != "position" {
						t.Fatalf("got %+v, want positions and the end", e)
					}
				}
				if got := feedtest.Open(t.Context(), f, path, "Last-Event-ID", last.ID); got.Status != http.StatusGone {
					t.Errorf("resumed: got %d, want 410", got.Status)
				}
				if got := f.Status().Cuts["gone"]; got != 1 {
					t.Errorf("got %d cuts", got)
				}
			})
		})
	}
}

// A stream ends when its caller loses the role and when the orchestrator shuts down, each counted by its reason.
func TestFeed_Cuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, newPersdb(), 0)
		ctx, lose := context.WithCancelCause(t.Context())
		first, second := feedtest.Open(ctx, f, path), open(t, f, path)
		lose(httpapi.ErrRoleLost)
		first.Gone()
		f.Close()
		second.Gone()
		if got := f.Status(); got.Cuts["credentials"] != 1 || got.Cuts["shutdown"] != 1 || got.Streams != 0 {
			t.Errorf("got %+v", got)
		}
		left := open(t, run(t, newPersdb(), 0), path)
		left.Close()
	})
}
