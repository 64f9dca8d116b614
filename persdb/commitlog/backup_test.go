package commitlog_test

import (
	"bytes"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A copy that has no room beside the reserve is refused before it takes any of it.
func TestBackup_NoRoom_NothingIsWritten(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	dir := t.TempDir()
	s := open(t, commitlog.Config{Dir: dir, Reserve: mib})
	storetest.Commit(t, s, storetest.Claim(t, s), op(1, "INSERT INTO users VALUES('ann', printf('%.*c', 5000000, 'x'))"))
	asked, most := 0, int64(0)
	s.OnFree(func() int64 {
		asked++
		most = max(most, bytesBelow(t, filepath.Join(dir, "backups")))
		return 5 * mib // more than a chunk, less than the tables and the reserve
	})
	if _, err := s.Backup(t.Context(), dbaas.BackupForm{}); dbaas.CodeOf(err) != dbaas.CodeFull {
		t.Errorf("got %v, want code %q", err, dbaas.CodeFull)
	}
	if asked == 0 || most > 0 {
		t.Errorf("the free space was asked for %d times, and %d bytes were written", asked, most)
	}
}

// A file whose end is missing is refused, though it may look whole to the engine, and so do its rows. Bytes behind the
// pages do no harm.
func TestStore_FileSQL_WithoutItsEnd(t *testing.T) {
	t.Parallel()
	s := open(t, commitlog.Config{})
	load(t, s, 1, dbaas.LoadText, "CREATE TABLE t(a); "+strings.Repeat("INSERT INTO t VALUES(hex(randomblob(500)));", 50))
	_, file := backup(t, s, dbaas.BackupForm{})
	stale := bytes.Clone(file)
	stale[27]++ // of the change counter: the header's number of pages no longer counts.
	large := witnessFile(t, "PRAGMA page_size=65536; CREATE TABLE t(a)")
	for name, bad := range map[string][]byte{
		"LastByte": file[:len(file)-1], "LastPage": file[:len(file)-4096], "OldProgram": stale[:len(stale)-1], "LargePages": large[:len(large)-1],
	} {
		if _, err := s.FileSQL(t.Context(), bad); dbaas.CodeOf(err) != dbaas.CodeInvalid || !strings.Contains(err.Error(), "damaged: its pages take") {
			t.Errorf("%s: got %v, want it refused as damaged", name, err)
		}
	}
	for name, good := range map[string][]byte{"Whole": file, "OldProgram": stale, "LargePages": large, "More": append(bytes.Clone(file), '\n')} {
		if _, err := s.FileSQL(t.Context(), good); err != nil {
			t.Errorf("%s: got %v, want its text", name, err)
		}
	}
}

// bytesBelow returns the total size of the files below a folder.
func bytesBelow(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		total += info.Size()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return total
}

// witnessFile returns a database file that another way than the store's made.
func witnessFile(t *testing.T, script string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	if err = db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
