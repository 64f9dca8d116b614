package commitlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// wal and tablesWAL are the WALs of log and tables.
const (
	wal       = "persdb/log.db-wal"
	tablesWAL = "persdb/persdb.db-wal"
)

// onDisk opens a store on a disk of its own. The caller closes it.
func onDisk(t *testing.T) *powerRun {
	t.Helper()
	r := &powerRun{disk: disktest.New(t)}
	r.store = reopen(t, r.config())
	return r
}

// Only the log's writing connection waits for the disk at every commit; reading connections cannot write.
func TestStore_Open_Settings(t *testing.T) {
	s := open(t, commitlog.Config{})
	for pragma, want := range map[string]string{"synchronous": "1", "journal_mode": "wal", "foreign_keys": "1", "query_only": "0"} {
		if got, err := s.Pragma(pragma); err != nil || got != want {
			t.Errorf("%s of the writer: got %q, %v, want %q", pragma, got, err, want)
		}
	}
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		if got, err := s.LogPragma(pragma); err != nil || got != want {
			t.Errorf("%s of the log's writer: got %q, %v, want %q", pragma, got, err, want)
		}
	}
	if got, err := s.ReaderPragma(t.Context(), "query_only"); err != nil || got != "1" {
		t.Errorf("query_only of a reader: got %q, %v, want 1", got, err)
	}
}

// ops are the operations on a disk since the last call of begin.
type ops struct {
	mu   sync.Mutex
	list []disktest.Op
}

func (o *ops) note(op disktest.Op) disktest.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, op)
	return disktest.None
}

func (o *ops) begin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = nil
	return nil
}

// syncs returns how often the WALs of log and tables were synced, and whether the log's last sync came after its last
// write.
func (o *ops) syncs() (log, tables int, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range o.list {
		switch {
		case op.Name == wal:
			if last = op.Kind == disktest.Sync; last {
				log++
			}
		case op == disktest.Op{Kind: disktest.Sync, Name: tablesWAL}:
			tables++
		}
	}
	return log, tables, last
}

// A commit syncs the log's WAL once for all operations of a batch, between the append and its answer; so do a claim and
// a trim. Only a trim syncs the tables, before it removes entries.
func TestStore_Sync_OncePerStep(t *testing.T) {
	r := onDisk(t)
	s := r.store
	defer closeStore(t, s)
	var o ops
	r.disk.SetFault(o.note)
	epoch := storetest.Claim(t, s) // a first commit also syncs the header of its WAL
	insert := func(from, n int) (list []dbaas.Operation) {
		for i := from; i < from+n; i++ {
			list = append(list, op(i, fmt.Sprintf("INSERT INTO apicount VALUES('s%d', 1)", i)))
		}
		return list
	}
	for _, step := range []struct {
		name        string
		run         func()
		log, tables int
	}{
		{"commit of one", func() { storetest.Commit(t, s, epoch, insert(0, 1)...) }, 1, 0},
		{"commit of 64", func() { storetest.Commit(t, s, epoch, insert(1, 64)...) }, 1, 0},
		{"claim", func() { epoch = storetest.Claim(t, s) }, 1, 0},
		{"trim", func() { trim(t, s) }, 1, 1},
		{"the same again", func() { storetest.Commit(t, s, epoch, insert(1, 64)...) }, 0, 0},
	} {
		r.elapsed += time.Hour
		s.FailBeforeAppend(o.begin)
		_ = o.begin() // a claim and a trim have no such point
		step.run()
		if log, tables, last := o.syncs(); log != step.log || tables != step.tables || last != (step.log > 0) {
			t.Errorf("%s: %d syncs of the log, the last after all writes: %v, and %d of the tables; want %d and %d",
				step.name, log, last, tables, step.log, step.tables)
		}
	}
}

// A copy does not replace the file before the removal of the file's WAL is durable in the directory.
func TestStore_Open_DirectoryNotSynced_OldFileStays(t *testing.T) {
	d := disktest.New(t)
	want := mostlyFree(t, d)
	failed := false
	d.SetFault(func(op disktest.Op) disktest.Fault {
		if op == (disktest.Op{Kind: disktest.Rename, Name: "persdb/persdb.db.new"}) {
			t.Errorf("%s was renamed", op.Name)
		}
		if op.Kind == disktest.SyncDir && !failed {
			failed = true
			return disktest.Full
		}
		return disktest.None
	})
	if err := sameAfter(t.Context(), &powerRun{disk: d}, want); err != nil || !failed {
		t.Errorf("%v; the sync failed: %v", err, failed)
	}
}

// A commit that a process had written but not synced when it died is found by the next process, which shows it to
// others. It must be permanent by then.
func TestStore_Open_CommitFoundInTheWAL_SurvivesPowerLoss(t *testing.T) {
	for seed := range uint64(8) {
		r := onDisk(t)
		epoch := storetest.Claim(t, r.store)
		r.disk.SetFault(func(op disktest.Op) disktest.Fault {
			if op == (disktest.Op{Kind: disktest.Sync, Name: wal}) {
				r.disk.CutAfter(1)
			}
			return disktest.None
		})
		if _, err := r.store.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(1, ann)}); err == nil {
			t.Fatal("a commit without a sync was answered")
		}
		r.disk.SetFault(nil)
		for _, again := range []func() error{
			func() error { r.disk.Restart(); return nil },
			func() error { return r.disk.LosePower(rand.New(rand.NewPCG(seed, 0))) },
		} {
			r.disk.CutAfter(1)
			_ = r.leave() // as the end of a process does
			if err := again(); err != nil {
				t.Fatal(err)
			}
			r.store = reopen(t, r.config())
			if _, err := r.store.Lookup(t.Context(), storetest.ID(1)); err != nil {
				t.Errorf("run %d: %v", seed, err)
			}
		}
		closeStore(t, r.store)
	}
}

// Once the first start has returned, a power loss does not remove the mark by which a missing file is detected.
func TestStore_Open_MarkSurvivesPowerLoss(t *testing.T) {
	for seed := range uint64(8) {
		r := onDisk(t)
		r.disk.CutAfter(1)
		_ = r.leave() // as the end of a process does
		if err := r.disk.LosePower(rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(r.config().Dir, commitlog.FileName)); err != nil {
			t.Fatal(err)
		}
		if _, err := commitlog.Open(t.Context(), app(r.config())); dbaas.CodeOf(err) != dbaas.CodeInternal {
			t.Errorf("run %d: a start without the file: got %v, want code %q", seed, err, dbaas.CodeInternal)
		}
	}
}

// With a disk that takes two seconds for a sync, writes are slow but none is lost, and reads continue.
func TestStore_SlowSync_ReadsGoOn(t *testing.T) {
	d := disktest.New(t)
	synctest.Test(t, func(t *testing.T) {
		s := reopen(t, (&powerRun{disk: d}).config())
		epoch := storetest.Claim(t, s)
		storetest.Commit(t, s, epoch, op(0, ann))
		d.SetFault(func(op disktest.Op) disktest.Fault {
			if op.Kind == disktest.Sync {
				time.Sleep(2 * time.Second)
			}
			return disktest.None
		})
		began := time.Now()
		var writers sync.WaitGroup
		for n := 1; n <= 3; n++ {
			writers.Go(func() {
				c, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(n, fmt.Sprintf("INSERT INTO apicount VALUES('s%d', 1)", n))})
				if err != nil || outcome(c.Results[0]) != "ok" {
					t.Errorf("operation %d: %v, %v", n, c, err)
				}
			})
		}
		synctest.Wait() // the first of them waits for the disk
		if h, err := s.Hashes(t.Context()); err != nil || h.Seq != 1 {
			t.Errorf("hashes: at %d, %v", h.Seq, err)
		}
		if head, err := s.Head(t.Context()); err != nil || head.Seq != 1 {
			t.Errorf("head: at %d, %v", head.Seq, err)
		}
		if page, err := s.Log(t.Context(), 0, 0); err != nil || len(page.Entries) != 1 {
			t.Errorf("log: %d entries, %v", len(page.Entries), err)
		}
		if _, err := s.Lookup(t.Context(), storetest.ID(0)); err != nil {
			t.Error(err)
		}
		storetest.NewReplica(t, s)
		if took := time.Since(began); took != 0 {
			t.Errorf("reads waited %v for the disk", took)
		}
		writers.Wait()
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("three commits took %v, want two seconds each", took)
		}
		storetest.NewReplica(t, s).Follow(t, s)
		closeStore(t, s)
	})
}

// walRoom is the number of writes to a WAL that still find room; negative means any number.
type walRoom struct {
	name    string
	left    int
	refused bool
}

func (w *walRoom) fault(op disktest.Op) disktest.Fault {
	if op.Name != w.name || op.Kind != disktest.Write || w.left < 0 {
		return disktest.None
	}
	if w.left == 0 {
		w.refused = true
		return disktest.Full
	}
	w.left--
	return disktest.None
}

// passed reports whether a step found room, checks its error, and makes room.
func (w *walRoom) passed(t *testing.T, err error) bool {
	t.Helper()
	if w.refused && (dbaas.CodeOf(err) != dbaas.CodeFull || !strings.HasPrefix(err.Error(), "persdb's disk is full")) || !w.refused && err != nil {
		t.Fatalf("got %v, no room: %v", err, w.refused)
	}
	done := !w.refused
	w.left, w.refused = -1, false
	return done
}

// A disk that fails once, while a statement outgrows the page cache, fails the batch and no operation: the same batch succeeds.
func TestStore_DiskFailsOnceInAStatement(t *testing.T) {
	r := onDisk(t)
	defer closeStore(t, r.store)
	epoch, failed := storetest.Claim(t, r.store), false
	r.disk.SetFault(func(op disktest.Op) disktest.Fault {
		if !failed && op == (disktest.Op{Kind: disktest.Write, Name: tablesWAL}) {
			failed = true
			return disktest.Broken
		}
		return disktest.None
	})
	batch := []dbaas.Operation{op(1, ann), op(2, "INSERT INTO users VALUES('large', hex(zeroblob(10000000)))")}
	if c, err := r.store.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, batch); dbaas.CodeOf(err) != dbaas.CodeUnavailable || !failed {
		t.Errorf("the disk failed: %v; got %+v, %v, want code %q", failed, c.Results, err, dbaas.CodeUnavailable)
	}
	again := storetest.Commit(t, r.store, epoch, batch...).Results
	if got := outcome(again[0]) + ", " + outcome(again[1]); got != "ok, ok" {
		t.Errorf("the same batch: got %s, want ok, ok", got)
	}
	storetest.NewReplica(t, r.store).Follow(t, r.store)
}

// A disk has no room for the log's WAL, at any write of a step: the step fails with CodeFull, certainly nothing is done,
// reads continue, and the same step succeeds when there is room. No restart is needed, and the results survive a power
// loss.
func TestStore_NoRoomForTheWAL_AtAnyWrite(t *testing.T) {
	r := onDisk(t)
	s, d := r.store, r.disk
	epoch := storetest.Claim(t, s)
	room := &walRoom{name: wal, left: -1}
	d.SetFault(room.fault)
	seq := dbaas.Seq(0)
	for n := 0; ; n++ {
		batch := []dbaas.Operation{op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d', hex(zeroblob(10000)))", n))}
		room.left = n
		_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, batch)
		done := room.passed(t, err)
		if h, err := s.Hashes(t.Context()); err != nil || !done && h.Seq != seq {
			t.Fatalf("reads after it: at %d, want %d, %v", h.Seq, seq, err)
		}
		seq++
		if c := storetest.Commit(t, s, epoch, batch...); (c.Entry == nil) != done || c.Results[0].Seq != seq {
			t.Fatalf("the same batch with room: %v", c)
		}
		if done {
			break
		}
	}
	for n, done := 0, false; !done; n++ {
		room.left = n
		got, err := s.Claim(t.Context())
		if done = room.passed(t, err); !done {
			got = storetest.Claim(t, s)
		}
		if got != epoch+1 {
			t.Errorf("got epoch %d after %d", got, epoch)
		}
		epoch = got
	}
	d.SetFault(nil)
	d.CutAfter(1)
	_ = s.Close() // it cannot
	if err := d.LosePower(rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, r.config())
	if head, err := s.Head(t.Context()); err != nil || head.Seq != seq || head.Epoch != epoch {
		t.Errorf("after a loss of power: %v, %v, want %d in epoch %d", head, err, seq, epoch)
	}
	closeStore(t, s)
	storetest.Witness(t, filepath.Join(r.config().Dir, commitlog.FileName))
}
