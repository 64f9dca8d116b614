package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of workertest.Rows

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/internal/wire"
	"rideshare/worker/replica"
)

const (
	schema = "CREATE TABLE n (i INTEGER PRIMARY KEY, v TEXT NOT NULL) STRICT"
	limit  = time.Minute
)

func insert(i int) dbaas.Statement {
	return dbaas.Statement{SQL: "INSERT INTO n(i, v) VALUES(?, ?)", Args: []dbaas.Value{dbaas.Integer(int64(i)), dbaas.Text(fmt.Sprint("v", i))}}
}

// fill writes rows from..to, one entry each.
func fill(s *workertest.Store, from, to int) (entries []dbaas.Entry) {
	for i := from; i <= to; i++ {
		entries = append(entries, s.Write(insert(i)))
	}
	return entries
}

// live is a Replica under test with its directory.
type live struct {
	*replica.Replica
	t   testing.TB
	dir string
}

// run starts a Replica that never compares heads periodically, unless change enables that.
func run(tb testing.TB, store replica.Store, change func(*replica.Config)) *live {
	tb.Helper()
	l := made(tb, store, change)
	l.start()
	return l
}

// bound starts a Replica whose subscription is bound.
func bound(tb testing.TB, store replica.Store, change func(*replica.Config)) *live {
	tb.Helper()
	l := made(tb, store, change)
	l.Subscriber().Gap()
	l.start()
	return l
}

// made returns a Replica that start runs.
func made(tb testing.TB, store replica.Store, change func(*replica.Config)) *live {
	tb.Helper()
	c := replica.Config{
		Dir: filepath.Join(tb.TempDir(), "replica"), Store: store, Log: slog.New(slog.DiscardHandler),
		AntiEntropy: time.Hour, NudgeAfter: time.Hour, Backoff: time.Millisecond, VerifyEvery: -1,
	}
	if change != nil {
		change(&c)
	}
	return &live{Replica: replica.New(c), t: tb, dir: c.Dir}
}

// start runs the Replica until the test ends.
func (l *live) start() {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			l.t.Errorf("run: got %v, want context canceled", err)
		}
	})
}

// broadcast passes entries as the bus does.
func (l *live) broadcast(entries ...dbaas.Entry) {
	l.t.Helper()
	for _, e := range entries {
		b, err := wire.EncodeEntry(e)
		if err != nil {
			l.t.Fatal(err)
		}
		l.Subscriber().Entry(b)
	}
}

// reaches waits until the replica may be read and is at seq.
func (l *live) reaches(seq dbaas.Seq) {
	l.t.Helper()
	testenv.Eventually(l.t, limit, func() error {
		if head, ready := l.Applied(); !ready || head.Seq != seq {
			return fmt.Errorf("position %d, readable %t; want %d, true", head.Seq, ready, seq)
		}
		return nil
	})
}

// count returns the replica's answer for the number of rows, and its position.
func (l *live) count() (string, dbaas.Seq) {
	l.t.Helper()
	rd, err := l.Reader()
	if err != nil {
		l.t.Fatal(err)
	}
	defer rd.Close()
	return countRows(l.t, rd), rd.Seq()
}

func countRows(tb testing.TB, rd *replica.Reader) string {
	tb.Helper()
	r := rd.Read(tb.Context(), &dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: "SELECT count(*) AS c FROM n"}}})
	if r.Code != dbaas.CodeOK {
		tb.Fatalf("read: %s %s", r.Code, r.Message)
	}
	return string(r.Body)
}

// equals checks rows and hashes against persdb.
func (l *live) equals(store *workertest.Store) {
	l.t.Helper()
	want, err := store.Hashes(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	got, err := l.Hashes(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("hashes (-persdb +replica):\n%s", diff)
	}
	wantRows, err := workertest.Rows(l.t, store.Path())
	if err != nil {
		l.t.Fatal(err)
	}
	gotRows, err := workertest.Rows(l.t, l.path())
	if err != nil {
		l.t.Fatal(err)
	}
	if diff := cmp.Diff(wantRows, gotRows); diff != "" {
		l.t.Errorf("rows (-persdb +replica):\n%s", diff)
	}
}

// path returns the one database file in the replica's directory.
func (l *live) path() string {
	l.t.Helper()
	var paths []string
	testenv.Eventually(l.t, limit, func() error { // The old file is removed after readers have the new file.
		if paths = l.files(); len(paths) != 1 {
			return fmt.Errorf("got files %v, want one", paths)
		}
		return nil
	})
	return paths[0]
}

func (l *live) files() []string {
	l.t.Helper()
	paths, err := filepath.Glob(filepath.Join(l.dir, "*.db"))
	if err != nil {
		l.t.Fatal(err)
	}
	return paths
}

// faultStore lets a test intercept some methods of the store.
type faultStore struct {
	*workertest.Store
	log      func() error
	page     func(context.Context) error // called while a page is on its way
	snapshot func(*dbaas.Snapshot) error
	hashes   func(*dbaas.TableHashes) error
	asked    func() // called before hashes are read
}

func (s *faultStore) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	if s.asked != nil {
		s.asked()
	}
	h, err := s.Store.HashPart(ctx, from)
	if err == nil && s.hashes != nil {
		err = s.hashes(&h.TableHashes)
	}
	return h, err
}

func (s *faultStore) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	if s.log != nil {
		if err := s.log(); err != nil {
			return dbaas.Page{}, err
		}
	}
	if s.page != nil {
		if err := s.page(ctx); err != nil {
			return dbaas.Page{}, dbaas.WrapError(dbaas.CodeUnavailable, "the page broke off", err)
		}
	}
	return s.Store.Log(ctx, after, wait)
}

func (s *faultStore) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	if err == nil && s.snapshot != nil {
		err = s.snapshot(snap)
	}
	return snap, err
}

// cutOff ends a snapshot's body after a given number of bytes.
func cutOff(s *dbaas.Snapshot, bytes int64) {
	s.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(s.Body, bytes), s.Body}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
