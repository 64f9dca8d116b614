package commitlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// The disk has no room for the tables' WAL, at any write of a commit, after the entry was appended: the commit is
// answered, the entry is there for replicas, known operations get their answers, other writes are refused with CodeFull
// until there is room, and the next write brings the tables up to the log.
func TestStore_NoRoomForTheTables_AtAnyWrite(t *testing.T) {
	r := onDisk(t)
	s := r.store
	defer closeStore(t, s)
	epoch := storetest.Claim(t, s)
	room := &walRoom{name: tablesWAL, left: -1}
	r.disk.SetFault(room.fault)
	replica := storetest.NewReplica(t, s)
	commit := func(list ...dbaas.Operation) (dbaas.Commit, error) {
		return s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, list)
	}
	for n, full := 0, true; full; n++ {
		insert := op(2*n, fmt.Sprintf("INSERT INTO users VALUES('u%d', hex(zeroblob(9000)))", n))
		room.left = n
		c, err := commit(insert)
		full = room.refused
		if err != nil || outcome(c.Results[0]) != "ok" {
			t.Fatalf("after %d writes: %+v, %v", n, c.Results, err)
		}
		if page, err := s.Log(t.Context(), c.Entry.Seq-1, 0); err != nil || len(page.Entries) != 1 {
			t.Errorf("the log after %d writes: %+v, %v", n, page, err)
		}
		if full {
			room.left = 0
			if again, err := commit(insert); err != nil || again.Entry != nil || again.Results[0].Seq != c.Entry.Seq {
				t.Errorf("the same batch: %+v, %v", again, err)
			}
			if _, err := commit(op(2*n+1, ann)); dbaas.CodeOf(err) != dbaas.CodeFull {
				t.Errorf("a later write: got %v, want code %q", err, dbaas.CodeFull)
			}
		}
		room.left, room.refused = -1, false
		storetest.Commit(t, s, epoch, op(2*n+1, ann))
		replica.Follow(t, s)
	}
	if h, err := s.Hashes(t.Context()); err != nil || len(h.Damaged) > 0 {
		t.Errorf("damaged tables %v, %v", h.Damaged, err)
	}
}

// A statement that needed too much memory does not hide that the disk has no room for the tables: the reserve is used, and
// later writes are refused with CodeFull until there is room.
func TestStore_NoRoomForTheTables_AfterAStoppedStatement(t *testing.T) {
	r := &powerRun{disk: disktest.New(t)}
	cfg := r.config()
	cfg.Limits.Memory = 1 << 20 // beside the page cache
	s := reopen(t, cfg)
	defer closeStore(t, s)
	epoch := storetest.Claim(t, s)
	room := &walRoom{name: tablesWAL}
	s.FailBeforeTables(func() error { r.disk.SetFault(room.fault); return nil })
	c := storetest.Commit(t, s, epoch, op(1, ann), op(2, "SELECT length(hex(zeroblob(16000000)))"))
	if got := outcome(c.Results[1]); got != "too_large: the statement needs more than 1 MiB" || !room.refused {
		t.Fatalf("got %s; a write found no room: %v", got, room.refused)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "persdb.reserve")); !os.IsNotExist(err) || !sizes(t, s).DiskFull {
		t.Errorf("the reserve: %v; the store says that the disk is full: %v", err, sizes(t, s).DiskFull)
	}
	if _, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(3, bob)}); dbaas.CodeOf(err) != dbaas.CodeFull {
		t.Errorf("a later write: got %v, want code %q", err, dbaas.CodeFull)
	}
	room.left = -1
	storetest.Commit(t, s, epoch, op(3, bob))
}

// tablesBehind creates a closed store whose log has two entries more than its tables, and returns the content that it
// must have. The entries change counters of AUTOINCREMENT and the schema.
func tablesBehind(t *testing.T) (commitlog.Config, dbaas.TableHashes, *storetest.Replica) {
	t.Helper()
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v)", "INSERT INTO counted(v) VALUES(1),(2)"))
	closeStore(t, s)
	path := filepath.Join(cfg.Dir, commitlog.FileName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s = reopen(t, cfg)
	storetest.Commit(t, s, epoch, op(2, "INSERT INTO counted(v) VALUES(3),(4)", "DELETE FROM counted WHERE id>2"))
	storetest.Commit(t, s, epoch, op(3, "CREATE TABLE more(a PRIMARY KEY) WITHOUT ROWID", "INSERT INTO more VALUES('x')", ann))
	want, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	replica := storetest.NewReplica(t, s)
	closeStore(t, s)
	write(t, path, string(before))
	return cfg, want, replica
}

// Entries that the log has and the tables lack are applied at the start: rows, sums and counters are as before, and the
// next AUTOINCREMENT value is not given out twice.
func TestStore_Open_TablesBehindTheLog(t *testing.T) {
	cfg, want, replica := tablesBehind(t)
	s := open(t, cfg)
	got, err := s.Hashes(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("content, %v (-before +after):\n%s", err, diff)
	}
	c := storetest.Commit(t, s, storetest.Claim(t, s), op(2, ann), op(4, "INSERT INTO counted(v) VALUES(5)", "INSERT INTO more VALUES('y')"))
	if c.Results[0].Code != dbaas.CodeMismatch || c.Results[1].Statements[0].LastInsertID != 5 {
		t.Errorf("got %+v, want a known operation and row 5", c.Results)
	}
	replica.Follow(t, s)
}

// Damage of an entry that the tables have stops no start, but damage of an entry that they still need does, with the
// next step for the operator.
func TestStore_Open_DamagedEntryIsNeeded(t *testing.T) {
	cfg, _, _ := tablesBehind(t)
	flip(t, cfg, "changes", 0)
	_, err := commitlog.Open(t.Context(), app(cfg))
	if dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), "entry 2 of the log is damaged") || !strings.Contains(err.Error(), "put a backup of both") {
		t.Errorf("got %v, want entry 2 and the next step", err)
	}
}

// Files that do not belong together are refused with the next step for the operator: tables ahead of their log, a log
// that begins after them, a log of another directory, or none.
func TestStore_Open_FilesOfTwoBackups(t *testing.T) {
	clk := newClock()
	cfg := clk.config(t.TempDir())
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, ann))
	files := func() (tables, log string) {
		t.Helper()
		closeStore(t, s)
		var read [2]string
		for i, name := range []string{commitlog.FileName, commitlog.LogFileName} {
			b, err := os.ReadFile(filepath.Join(cfg.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			read[i] = string(b)
		}
		s = reopen(t, cfg)
		return read[0], read[1]
	}
	tables1, log1 := files()
	for n := range 3 {
		storetest.Commit(t, s, epoch, op(2+n, "UPDATE users SET password=''"))
		clk.advance(2 * time.Hour)
	}
	trim(t, s)
	tables2, log2 := files()
	closeStore(t, s)
	otherCfg, _, _ := tablesBehind(t)
	other, err := os.ReadFile(filepath.Join(otherCfg.Dir, commitlog.LogFileName))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ tables, log, want string }{
		"TablesAhead":   {tables2, log1, "put both files of one backup there"},
		"LogBeginsLate": {tables1, log2, "put both files of one backup there"},
		"OtherLog":      {tables2, string(other), "put both files of one backup there"},
		"NoLog":         {tables2, "", "put a backup of both"},
		"NoTables":      {"", log2, "put a backup of both"},
		"BothOfOne":     {tables1, log1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := commitlog.Config{Dir: t.TempDir()}
			write(t, filepath.Join(dir.Dir, commitlog.FileName), tc.tables)
			write(t, filepath.Join(dir.Dir, commitlog.LogFileName), tc.log)
			write(t, filepath.Join(dir.Dir, "persdb.lock"), "a database was made here\n")
			s, err := commitlog.Open(t.Context(), app(dir))
			if err == nil {
				closeStore(t, s)
			}
			if tc.want == "" && err != nil || tc.want != "" && (dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Entries are trimmed only after the tables that have them are durable: a power loss right after a trim leaves a
// directory that starts.
func TestStore_Trim_TablesAreDurableFirst(t *testing.T) {
	for seed := range uint64(8) {
		r := onDisk(t)
		epoch := storetest.Claim(t, r.store)
		for n := range 4 {
			storetest.Commit(t, r.store, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d','x')", n)))
		}
		r.elapsed += 2 * time.Hour
		if n := trim(t, r.store); n != 3 {
			t.Fatalf("trimmed %d", n)
		}
		r.disk.CutAfter(1)
		_ = r.leave() // as the end of a process does
		if err := r.disk.LosePower(rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatal(err)
		}
		r.store = reopen(t, r.config())
		if head, err := r.store.Head(t.Context()); err != nil || head.Seq != 4 {
			t.Errorf("run %d: head %v, %v", seed, head, err)
		}
		storetest.NewReplica(t, r.store)
		closeStore(t, r.store)
	}
}

// The tables' COMMIT writes nothing before the log is synced: no power loss leaves tables ahead of their log.
func TestStore_Commit_LogFirst(t *testing.T) {
	r := onDisk(t)
	defer closeStore(t, r.store)
	epoch := storetest.Claim(t, r.store)
	var list []disktest.Op
	r.disk.SetFault(func(op disktest.Op) disktest.Fault {
		list = append(list, op)
		return disktest.None
	})
	storetest.Commit(t, r.store, epoch, op(1, ann))
	r.disk.SetFault(nil)
	synced := false
	for _, op := range list {
		synced = synced || op == disktest.Op{Kind: disktest.Sync, Name: wal}
		if op.Name == tablesWAL && !synced {
			t.Fatalf("the tables were written before the log was synced: %v", list)
		}
	}
	if !synced {
		t.Errorf("the log was not synced: %v", list)
	}
}
