package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

const frame = 24 + sqlite.PageSize

// blobs opens a file with the table t(k, v) and one committed row.
func blobs(t *testing.T, o sqlite.Options) (*sqlite.Conn, string) {
	t.Helper()
	c, path := sqlitetest.Open(t, o)
	sqlitetest.Exec(t, c, "CREATE TABLE t(k INTEGER PRIMARY KEY, v)")
	commitBlobs(t, c, 1)
	return c, path
}

// addBlobs inserts n rows, each with a page of its own besides the table's.
func addBlobs(t *testing.T, c *sqlite.Conn, n int) {
	t.Helper()
	if err := c.BeginWrite(); err != nil {
		t.Fatal(err)
	}
	for range n {
		sqlitetest.Exec(t, c, "INSERT INTO t(v) VALUES(randomblob(4000))")
	}
}

func commitBlobs(t *testing.T, c *sqlite.Conn, n int) {
	t.Helper()
	addBlobs(t, c, n)
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
}

// left returns the rows of a copy of the file and its WAL, as a process finds them that starts after another's death.
func left(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows(t, sqlitetest.OpenAt(t, to, sqlite.Options{}))
}

// rows returns a digest of the table t.
func rows(t *testing.T, c *sqlite.Conn) (all string) {
	t.Helper()
	if err := c.QuickCheck(); err != nil {
		t.Error(err)
	}
	err := c.Query("SELECT count(*), total(k), group_concat(hex(substr(v,1,4))) FROM (SELECT * FROM t ORDER BY k)", func(r sqlite.Row) error {
		all = fmt.Sprint(r.Int(0), r.Int(1), r.Text(2))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A frame that was written during a COMMIT can be read during it.
func TestCommit_ReadsItsFrames(t *testing.T) {
	c, _ := blobs(t, sqlite.Options{})
	want := slices.Repeat([]byte{7}, frame)
	clear(want[4:8]) // not the last frame
	if got := sqlite.WriteAndRead(c, want, 1<<20); !slices.Equal(got, want) {
		t.Errorf("got %.40x, want %.40x", got, want)
	}
}

// A commit writes its frames to the WAL together, up to 31 at once, in order and without a gap.
func TestCommit_WritesFramesTogether(t *testing.T) {
	for _, n := range []int{1, 30, 31, 32, 100} {
		c, path := blobs(t, sqlite.Options{})
		var sizes []int
		next := int64(-1)
		sqlite.OnWALWrite(t, c, func(size int, at int64) int32 {
			if next >= 0 && at != next {
				t.Errorf("%d rows: a write at %d, want %d", n, at, next)
			}
			next = at + int64(size)
			sizes = append(sizes, size)
			return 0
		})
		commitBlobs(t, c, n)
		pages := 0
		for i, size := range sizes {
			if pages += size / frame; size%frame != 0 || i < len(sizes)-1 && size != 31*frame {
				t.Errorf("%d rows: writes of %d bytes, want 31 frames of %d each but the last", n, sizes, frame)
				break
			}
		}
		if most := (pages + 30) / 31; pages < n || len(sizes) != most {
			t.Errorf("%d rows: %d writes of %d pages, want %d", n, len(sizes), pages, most)
		}
		if want, got := rows(t, c), left(t, path); got != want {
			t.Errorf("%d rows: a dead process left %.40s, want %.40s", n, got, want)
		}
	}
}

// A commit whose frames cannot be written was not done, and leaves nothing that a later commit or a reader could see.
func TestCommit_FramesNotWritten(t *testing.T) {
	for failing := range 4 { // of the commit's four writes
		c, path := blobs(t, sqlite.Options{})
		before, writes := rows(t, c), 0
		sqlite.OnWALWrite(t, c, func(int, int64) int32 {
			if writes++; writes == failing+1 {
				return sqlite.ResultFull
			}
			return 0
		})
		addBlobs(t, c, 100)
		if err := c.Commit(); dbaas.CodeOf(err) != dbaas.CodeFull {
			t.Fatalf("write %d: got %v, want code %q", failing, err, dbaas.CodeFull)
		}
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
		if got := []string{rows(t, c), left(t, path)}; got[0] != before || got[1] != before {
			t.Errorf("write %d: got %.40s, want %.40s", failing, got, before)
		}
		commitBlobs(t, c, 2)
		if got, want := left(t, path), rows(t, c); got != want || got == before {
			t.Errorf("write %d: after another commit a dead process left %.40s, want %.40s", failing, got, want)
		}
	}
}

// Random transactions that outgrow the page cache, so that the engine writes pages before the commit, writes some of
// them again, and rolls some back, leave the committed rows and nothing else.
func TestCommit_CacheOverflows(t *testing.T) {
	c, path := blobs(t, sqlite.Options{CacheBytes: 64 << 10})
	rng := rand.New(rand.NewPCG(1, 2))
	reader := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	spilled := 0
	sqlite.OnWALWrite(t, c, func(size int, _ int64) int32 {
		if size == sqlite.PageSize {
			spilled++
		}
		return 0
	})
	for step := range 25 {
		before := rows(t, reader)
		addBlobs(t, c, rng.IntN(60))
		for range rng.IntN(3) {
			sqlitetest.Exec(t, c, "UPDATE t SET v=randomblob(4000) WHERE k%3=1", "DELETE FROM t WHERE k%7=3")
		}
		undone := rng.IntN(3) == 0
		want := rows(t, c)
		if undone {
			want = before
			if err := c.End(); err != nil {
				t.Fatal(err)
			}
		} else if err := c.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := []string{rows(t, c), rows(t, reader), left(t, path)}; slices.ContainsFunc(got, func(g string) bool { return g != want }) {
			t.Fatalf("step %d, undone %t: got %.40s, want %.40s", step, undone, got, want)
		}
	}
	if spilled == 0 {
		t.Error("no page was written before its commit")
	}
}

// Frames of another size than ours are written as the engine writes them.
func TestCommit_OtherPageSize(t *testing.T) {
	c, path := blobs(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "PRAGMA journal_mode=DELETE", "PRAGMA page_size=1024", "VACUUM", "PRAGMA journal_mode=WAL")
	commitBlobs(t, c, 5)
	if got, want := left(t, path), rows(t, c); got != want {
		t.Errorf("a dead process left %.40s, want %.40s", got, want)
	}
}
