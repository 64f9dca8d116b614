package sim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
)

// trouble is a fault of a connection to persdb.
type trouble struct {
	refuse bool          // connections are refused
	hang   bool          // calls are sent and never answered
	delay  time.Duration // the longest delay of a call, which arrives even if the caller has given up or died
	lose   float64       // the share of commits whose answer is lost
	dies   bool          // the answer of the next commit is lost, and from then on connections are refused
}

// line is the state of a connection to persdb. Faults change it.
type line struct {
	mu    sync.Mutex // guards the fields below
	state trouble
	rnd   *rand.Rand
}

func newLine(rnd *rand.Rand) *line { return &line{rnd: rnd, state: trouble{delay: latency}} }

// patience is how long persdb's client waits for an answer.
const patience = 15 * time.Second

// latency is the longest delay of a call when nothing is wrong.
const latency = 3 * time.Millisecond

func (l *line) set(t trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.delay = max(t.delay, latency)
	l.state = t
}

// fate draws what happens to one call.
func (l *line) fate(commit bool) (t trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t = l.state
	if t.dies && commit {
		l.state.refuse, t.lose = true, 1
	}
	t.delay = time.Duration(l.rnd.Int64N(int64(t.delay)))
	if l.rnd.Float64() >= t.lose {
		t.lose = 0
	}
	return t
}

// link is the connection of one process to persdb: the process's own line, then the line that all processes share.
type link struct {
	store  *commitlog.Store
	gate   *gate
	own    *line
	shared *line
	late   *sync.WaitGroup // calls whose callers have given up
	fenced func(dbaas.Epoch, dbaas.Seq)
}

// fate draws what happens to one call on both lines.
func (l *link) fate(commit bool) trouble {
	a, b := l.own.fate(commit), l.shared.fate(commit)
	return trouble{
		refuse: a.refuse || b.refuse, hang: a.hang || b.hang, delay: a.delay + b.delay, lose: max(a.lose, b.lose),
	}
}

// errAway is the error of a call that was not sent.
var errAway = dbaas.WrapError(dbaas.CodeUnavailable, "persdb cannot be reached", dbaas.ErrUnreachable)

// call draws a fate and makes one call accordingly. lost is the error of a call that was sent and gets no answer. A
// call that was sent arrives, even if it is late or its caller has died.
func call[T any](ctx context.Context, l *link, lost error, do func(context.Context) (T, error)) (T, error) {
	var none T
	if l.gate.pass() != nil {
		return none, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fate := l.fate(errors.Is(lost, dbaas.ErrUnknown))
	switch {
	case fate.refuse:
		return none, errAway
	case fate.hang:
		select {
		case <-ctx.Done():
		case <-l.gate.dead:
		}
		return none, lost
	}
	type answer struct {
		v   T
		err error
	}
	answered := make(chan answer, 1)
	l.late.Go(func() {
		time.Sleep(fate.delay)
		v, err := do(context.WithoutCancel(ctx))
		answered <- answer{v, err}
	})
	select {
	case a := <-answered:
		if fate.lose > 0 || l.gate.pass() != nil {
			return none, lost
		}
		return a.v, a.err
	case <-ctx.Done():
		return none, lost
	case <-l.gate.dead:
		return none, lost
	}
}

// Commit is that of commitlog.Store.
func (l *link) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	return call(ctx, l, dbaas.ErrUnknown, func(ctx context.Context) (dbaas.Commit, error) { return l.store.Commit(ctx, by, ops) })
}

// Claim is that of commitlog.Store. It calls fenced with the epoch and a position after which no older epoch may
// commit.
func (l *link) Claim(ctx context.Context) (dbaas.Epoch, error) {
	return call(ctx, l, dbaas.ErrUnavailable, func(ctx context.Context) (dbaas.Epoch, error) { return claim(ctx, l.store, l.fenced) })
}

func claim(ctx context.Context, store *commitlog.Store, fenced func(dbaas.Epoch, dbaas.Seq)) (dbaas.Epoch, error) {
	epoch, err := store.Claim(ctx)
	if err != nil {
		return 0, err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return 0, err
	}
	fenced(epoch, head.Seq)
	return epoch, nil
}

// Head is that of commitlog.Store.
func (l *link) Head(ctx context.Context) (dbaas.Head, error) {
	return call(ctx, l, dbaas.ErrUnavailable, func(ctx context.Context) (dbaas.Head, error) { return l.store.Head(ctx) })
}

// Log is that of commitlog.Store.
func (l *link) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	return call(ctx, l, dbaas.ErrUnavailable, func(ctx context.Context) (dbaas.Page, error) { return l.store.Log(ctx, after, wait) })
}

// Changes is that of commitlog.Store, with a wait of at most a second, so that the call soon ends after its process.
func (l *link) Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error) {
	return call(ctx, l, dbaas.ErrUnavailable, func(ctx context.Context) (dbaas.Page, error) {
		return l.store.Changes(ctx, after, min(wait, time.Second), size)
	})
}

// HashPart is that of commitlog.Store.
func (l *link) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	return call(ctx, l, dbaas.ErrUnavailable, func(ctx context.Context) (dbaas.HashPart, error) { return l.store.HashPart(ctx, from) })
}

// Snapshot is that of commitlog.Store. Only its begin can fail: the snapshot itself is a local file.
func (l *link) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	if _, err := l.Head(ctx); err != nil {
		return nil, err
	}
	return l.store.Snapshot(ctx)
}

// Crash ends the process's calls.
func (l *link) Crash() { l.gate.kill() }
