package changes_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/feedtest"
	"rideshare/internal/wait"
	"rideshare/orchestrator/changes"
)

// persdb is a log in memory, whose commits are schema changes.
type persdb struct {
	mu       sync.Mutex // guards what follows
	cluster  dbaas.ClusterID
	entries  []dbaas.Entry // from first on
	first    dbaas.Seq
	err      error
	damaged  map[dbaas.Seq]bool
	slow     time.Duration // of each read
	pieces   int           // in how many pieces a page comes, a second apart
	reads    int           // that run now
	maxReads int
	allReads int
	polls    int // that run now
	maxPolls int
	more     wait.Signal
}

func newPersdb() *persdb { return &persdb{cluster: dbaas.ClusterID{1}, first: 1} }

func (p *persdb) head() dbaas.Head {
	return dbaas.Head{Cluster: p.cluster, Seq: p.first + dbaas.Seq(len(p.entries)) - 1, Epoch: 1}
}

// commit appends n commits of about size bytes.
func (p *persdb) commit(n, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		text := fmt.Sprintf("seq %d %s", p.head().Seq+1, strings.Repeat("x", size))
		p.entries = append(p.entries, dbaas.Entry{
			Cluster: p.cluster, Seq: p.head().Seq + 1, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: []byte(text)}},
		})
	}
	p.more.Notify()
}

// set changes the log.
func (p *persdb) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.more.Notify()
}

func (p *persdb) Head(context.Context) (dbaas.Head, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head(), p.err
}

func (p *persdb) Changes(ctx context.Context, after dbaas.Seq, limit time.Duration, size int) (dbaas.Page, error) {
	count, most := &p.reads, &p.maxReads
	if limit > 0 {
		count, most = &p.polls, &p.maxPolls
	}
	p.set(func() {
		*count++
		*most = max(*most, *count)
		if limit == 0 {
			p.allReads++
		}
	})
	defer p.set(func() { *count-- })
	if !wait.For(ctx, p.slow) {
		return dbaas.Page{}, ctx.Err()
	}
	for range p.pieces {
		wait.ReportProgress(ctx)
		if !wait.For(ctx, time.Second) {
			return dbaas.Page{}, ctx.Err()
		}
	}
	timeout := time.After(limit)
	for over := limit == 0; ; {
		more := p.more.Next()
		page, err := p.page(after, size)
		if over || err != nil || len(page.Entries) > 0 || page.Head.Seq != after {
			return page, err
		}
		select {
		case <-more:
		case <-timeout:
			over = true
		case <-ctx.Done():
			return page, ctx.Err()
		}
	}
}

func (p *persdb) page(after dbaas.Seq, size int) (dbaas.Page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := dbaas.Page{Head: p.head(), First: p.first}
	if p.err != nil {
		return dbaas.Page{}, p.err
	}
	if after+1 < p.first || after > page.Head.Seq {
		return page, dbaas.ErrGone
	}
	if p.damaged[after+1] {
		return dbaas.Page{}, dbaas.Errorf(dbaas.CodeDamaged, "commit %d is damaged", after+1)
	}
	for _, e := range p.entries[after+1-p.first:] {
		if p.damaged[e.Seq] {
			break
		}
		if size -= e.Size(); size < 0 && len(page.Entries) > 0 {
			break
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// run returns a feed that follows p until the test ends.
func run(t *testing.T, p *persdb, streams int) *changes.Feed {
	t.Helper()
	f := changes.New(changes.Config{Log: slog.New(slog.DiscardHandler), Store: p, Streams: streams})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() {
		f.Close()
		cancel()
		running.Wait()
	})
	return f
}

// open opens a stream, which must be 200, and closes it at the end of the test.
func open(t *testing.T, f *changes.Feed, target string, headers ...string) *feedtest.Stream {
	t.Helper()
	s := feedtest.Open(t.Context(), f, target, headers...)
	if s.Status != 200 {
		t.Fatalf("%s: got %d %s", target, s.Status, s.Body)
	}
	t.Cleanup(s.Close)
	return s
}

// wantCommits fails unless the next events are the commits from first to last.
func wantCommits(t *testing.T, s *feedtest.Stream, first, last uint64) {
	t.Helper()
	for seq := first; seq <= last; {
		e, err := s.Next()
		if err != nil {
			t.Fatalf("before commit %d: %v", seq, err)
		}
		c, err := e.Commit()
		if err != nil {
			t.Fatalf("%v in %.100s", err, e.Data)
		}
		if c.Changes == nil { // a position
			continue
		}
		if c.Seq != seq || len(c.Changes) != 1 || !strings.Contains(string(c.Changes[0]), fmt.Sprintf(`"seq %d `, seq)) {
			t.Fatalf("got %.100s, want commit %d", e.Data, seq)
		}
		seq++
	}
}
