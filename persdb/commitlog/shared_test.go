package commitlog_test

import (
	"context"
	"fmt"
	"strings"
	nanos "sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// openShared returns a store on a log that other processes write too.
func openShared(t *testing.T, log commitlog.Log) *commitlog.Store {
	t.Helper()
	return open(t, commitlog.Config{Shared: true, OpenLog: func(dbaas.ClusterID) (commitlog.Log, error) { return log, nil }})
}

// The store passes its suite on a shared log, too.
func TestStore_SharedLog_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return openShared(t, &farLog{})
	})
}

// Until the outcome of an append is known, none of its operations is said to be not done. Others are.
func TestStore_SharedLog_UnknownStaysUnknown(t *testing.T) {
	far := &farLog{}
	s := openShared(t, far)
	by := dbaas.Leadership{Epoch: storetest.Claim(t, s)}
	first := op(1, ann)
	far.loseNext = true
	if _, err := s.Commit(t.Context(), by, []dbaas.Operation{first}); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Fatalf("got %v, want code %q", err, dbaas.CodeUnknown)
	}
	far.setAway(true)
	ended, end := context.WithCancel(t.Context())
	end()
	for what, ctx := range map[string]context.Context{"asked": t.Context(), "the caller has gone": ended} {
		if _, err := s.Commit(ctx, by, []dbaas.Operation{op(2, bob), first}); dbaas.CodeOf(err) != dbaas.CodeUnknown {
			t.Errorf("%s again: got %v, want code %q", what, err, dbaas.CodeUnknown)
		}
	}
	if _, err := s.Commit(t.Context(), by, []dbaas.Operation{op(2, bob)}); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("another operation: got %v, want code %q", err, dbaas.CodeUnavailable)
	}
	far.setAway(false)
	c := storetest.Commit(t, s, by.Epoch, first, op(2, bob))
	if c.Results[0].Seq != 1 || c.Results[1].Seq != 2 {
		t.Errorf("got positions %d and %d, want 1 and 2", c.Results[0].Seq, c.Results[1].Seq)
	}
}

// Two stores write one log: the newer epoch wins, each takes over what the other has stored, and every operation has one
// effect.
func TestStore_SharedLog_TwoStores(t *testing.T) {
	far := &farLog{}
	a := openShared(t, far)
	first := storetest.Claim(t, a)
	storetest.Commit(t, a, first, op(1, ann))
	b := openShared(t, far)
	second := storetest.Claim(t, b)
	if c := storetest.Commit(t, b, second, op(2, bob), op(1, ann)); c.Results[0].Seq != 2 || c.Results[1].Seq != 1 {
		t.Errorf("the second store: got %+v, want positions 2 and 1", c.Results)
	}
	if _, err := a.Commit(t.Context(), dbaas.Leadership{Epoch: first}, []dbaas.Operation{op(3, ann)}); dbaas.CodeOf(err) != dbaas.CodeStaleEpoch {
		t.Errorf("the old epoch: got %v, want code %q", err, dbaas.CodeStaleEpoch)
	}
	third := storetest.Claim(t, a)
	if c := storetest.Commit(t, a, third, op(2, bob), op(4, "DELETE FROM users WHERE username='ann'")); c.Results[0].Seq != 2 || c.Results[1].Seq != 3 {
		t.Errorf("the first store again: got %+v, want positions 2 and 3", c.Results)
	}
	if head, err := b.Head(t.Context()); err != nil || head.Seq != 3 || head.Epoch != third {
		t.Errorf("the second store's head: got %+v, %v, want entry 3 of epoch %d", head, err, third)
	}
	nothing := "DELETE FROM users WHERE username='nobody'"
	storetest.Commit(t, b, storetest.Claim(t, b), op(5, "UPDATE users SET password='z'"))
	storetest.Commit(t, a, storetest.Claim(t, a), op(6, nothing))
	storetest.Commit(t, b, storetest.Claim(t, b), op(7, nothing))
	ours, err := a.Hashes(t.Context())
	theirs, err2 := b.Hashes(t.Context())
	if diff := cmp.Diff(ours.Tables, theirs.Tables); diff != "" || err != nil || err2 != nil {
		t.Errorf("%v, %v; tables (-first +second):\n%s", err, err2, diff)
	}
}

// While the log does not answer, the head of the store is not known, and its entries can still be read.
func TestStore_SharedLog_HeadAsksTheLog(t *testing.T) {
	far := &farLog{}
	s := openShared(t, far)
	storetest.Commit(t, s, storetest.Claim(t, s), op(1, ann))
	want, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	far.setAway(true)
	if got, away := s.Head(t.Context()); dbaas.CodeOf(away) != dbaas.CodeUnavailable {
		t.Errorf("got %+v, %v, want code %q", got, away, dbaas.CodeUnavailable)
	}
	far.setAway(false)
	got, err := s.Head(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
}

// slowLog holds its next Read until it is let go.
type slowLog struct {
	*farLog

	holding  bool
	reached  chan struct{}
	released chan struct{}
}

func (l *slowLog) Read(ctx context.Context, after dbaas.Seq, limit commitlog.Limit) ([]commitlog.Record, error) {
	if l.holding {
		close(l.reached)
		<-l.released
		l.holding = false
	}
	return l.farLog.Read(ctx, after, limit)
}

// While entries of another process are read, look-ups and positions are answered.
func TestStore_SharedLog_TakingOverHoldsNoLock(t *testing.T) {
	far := &slowLog{farLog: &farLog{}, reached: make(chan struct{}), released: make(chan struct{})}
	a := openShared(t, far)
	b := openShared(t, far.farLog)
	storetest.Commit(t, b, storetest.Claim(t, b), op(1, ann))
	far.holding = true
	claimed := make(chan error, 1)
	go func() {
		_, err := a.Claim(t.Context())
		claimed <- err
	}()
	<-far.reached
	if state := a.ArchiveState(); state.Head != 0 {
		t.Errorf("got head %d, want 0 until the entry is read", state.Head)
	}
	if _, err := a.Lookup(t.Context(), storetest.ID(1)); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("look-up of what may be there: got %v, want code %q", err, dbaas.CodeUnavailable)
	}
	close(far.released)
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lookup(t.Context(), storetest.ID(1)); err != nil {
		t.Errorf("look-up after the claim: %v", err)
	}
}

// turnLog is a farLog whose active process is another one until TakeOver.
type turnLog struct {
	*farLog

	active bool       // guarded by mu
	held   nanos.Bool // its process does not follow
}

func (l *turnLog) Head(ctx context.Context) (commitlog.Bounds, error) {
	if err := l.Check(ctx); err != nil {
		return commitlog.Bounds{}, err
	}
	return l.farLog.Head(ctx)
}

func (l *turnLog) Look(ctx context.Context) (commitlog.Bounds, error) {
	b, err := l.farLog.Head(ctx)
	if l.held.Load() {
		return commitlog.Bounds{}, errAway
	}
	return b, err
}

func (l *turnLog) Check(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.active {
		return dbaas.ErrNotActive
	}
	return nil
}

func (l *turnLog) TakeOver(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = true
	return nil
}

// An operator may let a log go on without its newest entries (promote.sh --accept-loss), in a new epoch. A store whose tables have such
// entries neither takes over nor opens, also once the log is longer than its tables.
func TestStore_SharedLog_GoesOnWithoutNewestEntries(t *testing.T) {
	for name, others := range map[string]int{"AsLong": 1, "Longer": 3} {
		t.Run(name, func(t *testing.T) {
			far := &farLog{}
			a := openShared(t, far)
			epoch := storetest.Claim(t, a)
			storetest.Commit(t, a, epoch, op(1, ann))
			behind := &turnLog{farLog: far}
			short := openShared(t, behind)
			behind.held.Store(true)
			storetest.Commit(t, a, epoch, op(2, bob))
			cfg := commitlog.Config{Dir: t.TempDir(), Shared: true, OpenLog: func(dbaas.ClusterID) (commitlog.Log, error) { return &turnLog{farLog: far}, nil }}
			long := reopen(t, cfg)
			far.loseLast()
			behind.held.Store(false)
			if err := short.TakeOver(t.Context()); err != nil {
				t.Fatalf("the store with what the log has: %v", err)
			}
			epoch = storetest.Claim(t, short)
			for n := range others {
				storetest.Commit(t, short, epoch, op(3+n, "UPDATE users SET password='z'"))
			}
			const want = "entry 2 of epoch 1, but the log's is of epoch 1002"
			if err := long.TakeOver(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnavailable || !strings.Contains(err.Error(), want) || long.Active() {
				t.Errorf("take-over: got %v, want code %q with %q", err, dbaas.CodeUnavailable, want)
			}
			closeStore(t, long)
			far.setAway(false)
			if again, err := commitlog.Open(t.Context(), unhurried(app(cfg))); dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), want) {
				if err == nil {
					closeStore(t, again)
				}
				t.Errorf("opened: got %v, want code %q with %q", err, dbaas.CodeInternal, want)
			}
		})
	}
}

// A store whose tables have no room for what another one has stored cannot take over. That says nothing about the operations that
// are to be done: another process may do them, and may have done them already. With room again it takes over.
func TestStore_SharedLog_TakeOverWithoutRoomIsUnavailable(t *testing.T) {
	far := &farLog{}
	a, b := openShared(t, far), openShared(t, &turnLog{farLog: far})
	room := func(pages int) {
		t.Helper()
		if _, err := b.Pragma(fmt.Sprintf("max_page_count=%d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	room(1) // what the file has already
	storetest.Commit(t, a, storetest.Claim(t, a), op(1, "INSERT INTO users VALUES('ann', printf('%.*c', 900000, 'x'))"))
	if err := b.TakeOver(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnavailable || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v, want code %q, and the full disk as the cause", err, dbaas.CodeUnavailable)
	}
	if b.Active() {
		t.Error("the store without room is the active one")
	}
	room(100_000)
	if err := b.TakeOver(t.Context()); err != nil || !b.Active() {
		t.Fatalf("with room again: got %v, want the active store", err)
	}
	if r, err := b.Lookup(t.Context(), storetest.ID(1)); err != nil || r.Seq != 1 {
		t.Errorf("the operation of the other store: got %+v, %v, want position 1", r, err)
	}
}

// An inactive process that cannot follow does not say that the log has nothing more: its look may hang at a paused server.
func TestStore_SharedLog_HangsWhileItFollows(t *testing.T) {
	far := &farLog{}
	active := openShared(t, far)
	storetest.Commit(t, active, storetest.Claim(t, active), op(1, ann))
	hangs := &hangingLog{farLog: far, looks: make(chan struct{}, 1)}
	hangs.looks <- struct{}{} // of the opening
	var elapsed nanos.Int64
	s := open(t, commitlog.Config{
		Shared: true, OpenLog: func(dbaas.ClusterID) (commitlog.Log, error) { return hangs, nil },
		Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) },
	})
	if _, err := s.Head(t.Context()); !dbaas.IsNotActive(err) {
		t.Fatalf("got %v, want that another one is active", err)
	}
	hangs.looks <- struct{}{}
	hangs.looks <- struct{}{} // the first attempt to follow has its look
	if page, err := s.Log(t.Context(), 0, 0); err != nil || len(page.Entries) != 1 {
		t.Fatalf("got %d entries, %v, want 1", len(page.Entries), err)
	}
	if page, err := s.Log(t.Context(), 1, 0); err != nil || len(page.Entries) != 0 {
		t.Errorf("after a look: got %d entries, %v, want none", len(page.Entries), err)
	}
	select {
	case <-hangs.looks: // the second attempt shall hang
	default: // it has its look, and began before elapsed changes
	}
	elapsed.Store(int64(2 * time.Second))
	if _, err := s.Log(t.Context(), 1, 0); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("without a look for 2 s: got %v, want code %q", err, dbaas.CodeUnavailable)
	}
	if page, err := s.Log(t.Context(), 0, 0); err != nil || len(page.Entries) != 1 {
		t.Errorf("what it has: got %d entries, %v, want 1", len(page.Entries), err)
	}
	close(hangs.looks)
}

// hangingLog is a log of which another process is the active one. A look waits for looks.
type hangingLog struct {
	*farLog

	looks chan struct{}
}

func (*hangingLog) Head(context.Context) (commitlog.Bounds, error) {
	return commitlog.Bounds{}, dbaas.ErrNotActive
}

func (l *hangingLog) Look(ctx context.Context) (commitlog.Bounds, error) {
	select {
	case <-l.looks:
	case <-ctx.Done():
	}
	return l.farLog.Head(ctx)
}

func (*hangingLog) TakeOver(context.Context) error { return dbaas.ErrNotActive }
func (*hangingLog) Check(context.Context) error    { return dbaas.ErrNotActive }
