package commitlog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// errNoRoom is the engine's error when the disk is full.
var errNoRoom = &dbaas.Error{Code: dbaas.CodeFull, Message: "database or disk is full"}

// When the disk has no room for the append, the error names the disk immediately, certainly nothing is done, the first
// failure of a series is logged, and writes continue when there is room.
func TestStore_Commit_DiskFull(t *testing.T) {
	var lines bytes.Buffer
	s := open(t, commitlog.Config{Log: slog.New(slog.NewTextHandler(&lines, nil))})
	epoch := storetest.Claim(t, s)
	s.FailBeforeAppend(func() error { return errNoRoom })
	for range 3 {
		_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(1, ann)})
		if dbaas.CodeOf(err) != dbaas.CodeFull || !strings.HasPrefix(err.Error(), "persdb's disk is full") {
			t.Fatalf("got %v, want code %q and the disk named", err, dbaas.CodeFull)
		}
	}
	if !sizes(t, s).DiskFull {
		t.Error("the store does not say that the disk is full")
	}
	s.FailBeforeAppend(nil)
	if c := storetest.Commit(t, s, epoch, op(1, ann)); c.Entry == nil || c.Entry.Seq != 1 {
		t.Errorf("with room again: entry %v", c.Entry)
	}
	if sizes(t, s).DiskFull {
		t.Error("the store still says that the disk is full")
	}
	if n := strings.Count(lines.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d lines at ERROR, want one:\n%s", n, lines.String())
	}
}

// A log that cannot grow refuses writes, and accepts them once trimming has made room in its file.
func TestStore_Trim_DiskFull(t *testing.T) {
	clk := newClock()
	s := open(t, clk.config(""))
	epoch := storetest.Claim(t, s)
	if err := s.SetMaxPages(100_000, 400); err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO users SELECT hex(randomblob(8)), printf('%.*c', 50000, 'x')"
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		_, err = s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(n, insert)})
	}
	if dbaas.CodeOf(err) != dbaas.CodeFull {
		t.Fatalf("got %v, want code %q", err, dbaas.CodeFull)
	}
	clk.advance(2 * time.Hour)
	if trimmed := trim(t, s); trimmed != n-2 {
		t.Errorf("trimmed %d of %d entries on a full disk", trimmed, n-1)
	}
	storetest.Commit(t, s, epoch, seen(n, 1<<30, insert))
}

// A store with a reserve releases it when the disk is full and uses it: growth is refused, while deletes and writes
// that fit into the freed space succeed. When the disk has room again the reserve is restored, and all writes are
// accepted.
func TestStore_Reserve_DeletesFindRoom(t *testing.T) {
	const size = 1 << 20
	dir := t.TempDir()
	s := open(t, commitlog.Config{Dir: dir, Reserve: size})
	kept := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "persdb.reserve"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if kept() != size {
		t.Fatalf("%d bytes are kept back", kept())
	}
	epoch := storetest.Claim(t, s)
	insert := func(n int) dbaas.Operation {
		return op(n, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', 50000, 'x'))", n))
	}
	s.SetFree(0)
	if err := s.SetMaxPages(100_000, 300); err != nil {
		t.Fatal(err)
	}
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		_, err = s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{insert(n)})
	}
	if kept() != 0 || dbaas.CodeOf(err) != dbaas.CodeFull {
		t.Fatalf("%d bytes are kept back on a full disk, %v", kept(), err)
	}
	if err := s.SetMaxPages(100_000, 10_000); err != nil { // the space of the reserve.
		t.Fatal(err)
	}
	run := func(want string, o dbaas.Operation) {
		t.Helper()
		if got := outcome(storetest.Commit(t, s, epoch, o).Results[0]); got != want {
			t.Errorf("%s: got %s, want %s", o.Statements[0].SQL, got, want)
		}
	}
	run("refused full", insert(n))
	run("ok", op(1000, "DELETE FROM users WHERE username IN ('0','1')"))
	run("ok", insert(n))
	run("refused full", op(1001, "INSERT INTO users VALUES('big', printf('%.*c', 900000, 'x'))"))
	s.SetFree(1 << 40)
	run("ok", op(1001, "INSERT INTO users VALUES('big', printf('%.*c', 900000, 'x'))"))
	if sizes(t, s).DiskFull || kept() != size {
		t.Errorf("with room again: full %v, %d bytes kept back", sizes(t, s).DiskFull, kept())
	}
}
