package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/logtest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// FileLog passes the conformance suite.
func TestFileLog_Suite(t *testing.T) {
	logtest.Run(t, func(t *testing.T) commitlog.Log {
		t.Helper()
		l, err := commitlog.OpenFileLog(filepath.Join(t.TempDir(), commitlog.LogFileName), dbaas.NewClusterID())
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

// farLog is a log on another machine: an appended record stays, whatever happens to the state machine's transaction.
type farLog struct {
	mu       sync.Mutex // guards what follows
	records  []commitlog.Record
	bounds   commitlog.Bounds
	loseNext bool // the next append is stored, and its answer lost
	away     bool // the log does not answer
}

var errAway = dbaas.Errorf(dbaas.CodeUnavailable, "the log is away")

func (l *farLog) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// loseLast goes on without the newest entry, in a new epoch.
func (l *farLog) loseLast() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = l.records[:len(l.records)-1]
	l.bounds.Head.Seq--
	l.bounds.Head.Epoch += 1000
}

func (l *farLog) Claim(context.Context) (dbaas.Epoch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bounds.Head.Epoch++
	return l.bounds.Head.Epoch, nil
}

func (l *farLog) Append(_ context.Context, r commitlog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Entry.Epoch != l.bounds.Head.Epoch {
		return dbaas.ErrStaleEpoch
	}
	if r.Entry.Seq != l.bounds.Head.Seq+1 {
		return dbaas.Errorf(dbaas.CodeConflict, "seq %d after %d", r.Entry.Seq, l.bounds.Head.Seq)
	}
	l.records = append(l.records, r)
	l.bounds.Head.Seq = r.Entry.Seq
	if l.loseNext {
		l.loseNext = false
		return dbaas.ErrUnknown
	}
	return nil
}

func (l *farLog) Read(_ context.Context, after dbaas.Seq, limit commitlog.Limit) ([]commitlog.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, errAway
	}
	if after < l.bounds.Trimmed {
		return nil, dbaas.ErrGone
	}
	var out []commitlog.Record
	size := 0
	for _, r := range l.records {
		if r.Entry.Seq <= after {
			continue
		}
		size += len(r.Operations)
		for _, c := range r.Entry.Changes {
			size += len(c.Data)
		}
		if len(out) > 0 && (len(out) == limit.Records || size > limit.Bytes) {
			break
		}
		out = append(out, r)
	}
	return out, nil
}

func (l *farLog) Head(context.Context) (commitlog.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return commitlog.Bounds{}, errAway
	}
	return l.bounds, nil
}

func (l *farLog) Trim(_ context.Context, seq dbaas.Seq, _ int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.records) > 1 && l.records[0].Entry.Seq <= seq {
		l.bounds.Trimmed = l.records[0].Entry.Seq
		l.records = l.records[1:]
	}
	return nil
}

func (l *farLog) Close() error {
	l.setAway(true)
	return nil
}

// farLog passes the suite too.
func TestFarLog_Suite(t *testing.T) {
	logtest.Run(t, func(t *testing.T) commitlog.Log {
		t.Helper()
		return &farLog{}
	})
}

// A page that is refused because the log was trimmed after the page's bounds were read says where the log begins now.
func TestStore_Log_TrimmedMeanwhile_SaysWhereItBegins(t *testing.T) {
	far := &farLog{}
	s := open(t, commitlog.Config{OpenLog: func(dbaas.ClusterID) (commitlog.Log, error) { return far, nil }})
	epoch := storetest.Claim(t, s)
	for n := range 4 {
		storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d','x')", n)))
	}
	if err := far.Trim(t.Context(), 2, 0); err != nil { // the store does not know it yet.
		t.Fatal(err)
	}
	page, err := s.Log(t.Context(), 0, 0)
	if !errors.Is(err, dbaas.ErrGone) || page.First != 3 || page.Head.Seq != 4 {
		t.Errorf("got first %d, head %d, %v, want first 3, head 4, gone", page.First, page.Head.Seq, err)
	}
}

// The store works on a log outside its file: an entry that the log has and the file has lost is replayed, at the next
// commit or at the next start, and takes effect once.
func TestStore_LogElsewhere_IsCaughtUp(t *testing.T) {
	far := &farLog{}
	cfg := commitlog.Config{
		Dir: t.TempDir(),
		OpenLog: func(dbaas.ClusterID) (commitlog.Log, error) {
			far.setAway(false)
			return far, nil
		},
	}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, ann))

	// The append is stored, its answer lost.
	far.loseNext = true
	second := op(2, bob, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('bob','t',1,2)")
	if _, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{second}); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Fatalf("got %v, want code %q", err, dbaas.CodeUnknown)
	}
	c := storetest.Commit(t, s, epoch, second, op(3, "DELETE FROM users WHERE username='ann'"))
	if got := outcome(c.Results[0]); got != "ok; ok" || c.Results[0].Seq != 2 || c.Results[1].Seq != 3 {
		t.Errorf("sent again: %s at %d, then %d", got, c.Results[0].Seq, c.Results[1].Seq)
	}

	replica := storetest.NewReplica(t, s)
	if n, m := count(t, replica, "users WHERE username='bob'"), count(t, replica, "rides"); n != 1 || m != 1 {
		t.Errorf("sent again: got %d users and %d rides, want one each", n, m)
	}

	// The process dies between append and COMMIT.
	s.FailBeforeTables(func() error { return errors.New("power cut") })
	storetest.Commit(t, s, epoch, op(4, "DELETE FROM users"))
	closeStore(t, s)
	s = reopen(t, cfg)
	defer closeStore(t, s)
	c = storetest.Commit(t, s, epoch, op(4, "DELETE FROM users"))
	if c.Entry != nil || c.Results[0].Seq != 4 {
		t.Errorf("after the death: entry %v, result %+v", c.Entry, c.Results[0])
	}
	replica.Follow(t, s)
	if n, m := count(t, replica, "users"), count(t, replica, "rides"); n != 0 || m != 0 {
		t.Errorf("got %d users and %d rides, want none", n, m)
	}
}

// lossyLog loses the answer of the next Claim or Trim, which is done.
type lossyLog struct {
	*commitlog.FileLog

	loseNext bool
}

func (l *lossyLog) lost(err error) error {
	if err != nil || !l.loseNext {
		return err
	}
	l.loseNext = false
	return dbaas.ErrUnknown
}

func (l *lossyLog) Claim(ctx context.Context) (dbaas.Epoch, error) {
	epoch, err := l.FileLog.Claim(ctx)
	return epoch, l.lost(err)
}

func (l *lossyLog) Trim(ctx context.Context, seq dbaas.Seq, size int64) error {
	return l.lost(l.FileLog.Trim(ctx, seq, size))
}

// A trim and a claim that were durable although they returned an error are detected before the next step.
func TestStore_TrimAndClaim_LostAnswerIsFoundOut(t *testing.T) {
	clk := newClock()
	cfg := clk.config(t.TempDir())
	log := &lossyLog{}
	cfg.OpenLog = func(cluster dbaas.ClusterID) (l commitlog.Log, err error) {
		log.FileLog, err = commitlog.OpenFileLog(filepath.Join(cfg.Dir, commitlog.LogFileName), cluster)
		return log, err
	}
	s := open(t, cfg)
	epoch := storetest.Claim(t, s)
	for n := range 5 {
		storetest.Commit(t, s, epoch, op(n, "UPDATE users SET password=''"))
		clk.advance(30 * time.Minute)
	}
	log.loseNext = true
	if _, err := s.Trim(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Fatalf("got %v, want code %q", err, dbaas.CodeUnknown)
	}
	c := storetest.Commit(t, s, epoch, seen(2, 2, ann), seen(3, 3, ann), seen(9, 5, ann))
	want := []string{"refused expired", "refused mismatch", "ok"}
	for i := range want {
		if got := outcome(c.Results[i]); got != want[i] {
			t.Errorf("operation %d: got %s, want %s", i, got, want[i])
		}
	}
	clk.advance(2 * time.Hour)
	if n := trim(t, s); n != 2 {
		t.Errorf("trimmed %d, want the 2 entries that are left beside the newest", n)
	}

	log.loseNext = true
	if _, err := s.Claim(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Fatalf("got %v, want code %q", err, dbaas.CodeUnknown)
	}
	if _, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(20, ann)}); dbaas.CodeOf(err) != dbaas.CodeStaleEpoch {
		t.Errorf("a commit with the epoch before the lost one: got %v, want code %q", err, dbaas.CodeStaleEpoch)
	}
}
