package invariants_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/coord/inproc"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/invariants"
	"rideshare/orchestrator/launch"
)

// system fakes persdb, the launcher and the workers; the coordinator is a real one.
type system struct {
	mu      sync.Mutex // guards the fields below
	head    dbaas.Head
	log     []dbaas.Entry
	trimmed dbaas.Seq
	pageLen int
	damaged dbaas.Seq // the entry that is
	logErr  error
	// onLog is called before each page, with the lock held.
	onLog     func(after dbaas.Seq)
	hashes    func() (dbaas.TableHashes, error)
	instances []launch.Instance
	listErr   error
	onList    func()                 // called before each list
	workers   map[string]*fakeWorker // by control URL
	verified  []string
}

type fakeWorker struct {
	status    workerapi.Status
	statusErr error
	hashes    func() (dbaas.TableHashes, error)
	verify    func() (workerapi.Verification, error)
}

func (s *system) Head(context.Context) (dbaas.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, s.logErr
}

func (s *system) Log(_ context.Context, after dbaas.Seq, _ time.Duration) (dbaas.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onLog != nil {
		s.onLog(after)
	}
	if s.logErr != nil {
		return dbaas.Page{}, s.logErr
	}
	if after < s.trimmed || after > s.head.Seq {
		return dbaas.Page{Head: s.head, First: s.trimmed + 1}, fmt.Errorf("read log: %w", dbaas.ErrGone)
	}
	page := dbaas.Page{Head: s.head, First: s.trimmed + 1}
	if s.damaged != 0 && s.damaged == after+1 {
		return dbaas.Page{}, dbaas.Errorf(dbaas.CodeDamaged, "entry %d is damaged", s.damaged)
	}
	for _, e := range s.log {
		if s.damaged > after && e.Seq >= s.damaged {
			break
		}
		if e.Seq > after && len(page.Entries) < max(s.pageLen, 1) {
			page.Entries = append(page.Entries, e)
		}
	}
	return page, nil
}

func (s *system) List(context.Context) ([]launch.Instance, error) {
	if s.onList != nil {
		s.onList()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]launch.Instance(nil), s.instances...), s.listErr
}

// store is persdb's side of system.
type store struct{ *system }

func (s store) Hashes(context.Context) (dbaas.TableHashes, error) { return s.hashes() }

// workers is the workers' side of system.
type workers struct{ *system }

func (w workers) of(url string) (*fakeWorker, error) {
	if f := w.workers[url]; f != nil {
		return f, nil
	}
	return nil, dbaas.WrapError(dbaas.CodeUnavailable, "worker not reached", http.ErrServerClosed)
}

func (w workers) Status(_ context.Context, url string) (workerapi.Status, error) {
	f, err := w.of(url)
	if err != nil {
		return workerapi.Status{}, err
	}
	return f.status, f.statusErr
}

func (w workers) Hashes(_ context.Context, url string) (dbaas.TableHashes, error) {
	f, err := w.of(url)
	if err != nil {
		return dbaas.TableHashes{}, err
	}
	return f.hashes()
}

func (w workers) Verify(_ context.Context, url string) (workerapi.Verification, error) {
	w.mu.Lock()
	w.verified = append(w.verified, url)
	w.mu.Unlock()
	f, err := w.of(url)
	if err != nil {
		return workerapi.Verification{}, err
	}
	return f.verify()
}

// tables is hashes of one table at a position.
func tables(seq dbaas.Seq, hash string) func() (dbaas.TableHashes, error) {
	return func() (dbaas.TableHashes, error) {
		return dbaas.TableHashes{Seq: seq, Tables: map[string]string{"users": hash, "rides": "r"}}, nil
	}
}

// entries is a log from, with one epoch each.
func entries(from dbaas.Seq, epochs ...dbaas.Epoch) []dbaas.Entry {
	var list []dbaas.Entry
	for i, epoch := range epochs {
		list = append(list, dbaas.Entry{Seq: from + dbaas.Seq(i), Epoch: epoch})
	}
	return list
}

// live is a sound system of a master and a slave, for tests to break.
type live struct {
	*system
	t           *testing.T
	coordinator *inproc.Coordinator
	session     coord.Session
}

func newLive(t *testing.T) *live {
	t.Helper()
	k, err := inproc.New(inproc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	session, err := k.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	l := &live{t: t, coordinator: k, session: session, system: &system{
		head: dbaas.Head{Seq: 3, Epoch: 2}, log: entries(1, 1, 1, 2), hashes: tables(3, "u"), workers: map[string]*fakeWorker{},
	}}
	if err = session.SetSlaveCount(t.Context(), 1, 0); err != nil {
		t.Fatal(err)
	}
	l.add(1, dbaas.RoleMaster)
	l.add(2, dbaas.RoleSlave)
	return l
}

// add runs and registers a worker that equals persdb.
func (l *live) add(pid int, role dbaas.Role) *fakeWorker {
	l.t.Helper()
	l.run(pid)
	l.register(pid, role)
	w := &fakeWorker{status: workerapi.Status{Role: role}, hashes: tables(3, "u")}
	w.verify = func() (workerapi.Verification, error) { return workerapi.Verification{Seq: 3}, nil }
	l.workers[url(pid)] = w
	return w
}

func (l *live) run(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instances = append(l.instances, launch.Instance{ID: id(pid), PID: pid, Running: true, Control: url(pid)})
}

func (l *live) register(pid int, role dbaas.Role) {
	l.t.Helper()
	if err := l.session.Register(l.t.Context(), coord.Member{PID: pid, Worker: id(pid), Role: role, Epoch: 1, Control: url(pid)}); err != nil {
		l.t.Fatal(err)
	}
}

func id(pid int) dbaas.WorkerID { return dbaas.WorkerID(fmt.Sprint("w", pid)) }
func url(pid int) string        { return fmt.Sprint("http://w", pid) }

// checker has a short settle time and looks often.
func (l *live) checker(change ...func(*invariants.Config)) *invariants.Checker {
	cfg := invariants.Config{
		Log: slog.New(slog.DiscardHandler), Store: store{l.system}, Workers: workers{l.system}, Launcher: l.system, Coordinator: l.coordinator,
		Settle: 30 * time.Millisecond, Poll: time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	return invariants.New(cfg)
}

// check checks in fake time and returns the report.
func (l *live) check(change ...func(*invariants.Config)) (report invariants.Report) {
	l.t.Helper()
	synctest.Test(l.t, func(t *testing.T) {
		var err error
		if report, err = l.checker(change...).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return report
}

// wantFailed checks that these invariants do not hold, with these words in their details, and all others do.
func wantFailed(t *testing.T, report invariants.Report, want map[string]string) {
	t.Helper()
	failed := map[string]string{}
	for _, i := range report.Failed() {
		failed[i.Name] = i.Detail
	}
	for name, words := range want {
		if detail, ok := failed[name]; !ok || !strings.Contains(detail, words) {
			t.Errorf("%s: got %q, want it to fail with %q", name, detail, words)
		}
		delete(failed, name)
	}
	if len(failed) > 0 || report.OK != (len(want) == 0) || len(report.Invariants) != 8 {
		t.Errorf("got %+v, want only %v to fail, of eight", report, want)
	}
}
