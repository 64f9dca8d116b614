package replica_test

import (
	"bytes"
	"database/sql"
	"os"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/workertest"
)

func (l *live) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// damage overwrites the page that the named table or index begins with, as a broken disk would.
func (l *live) damage(name string) {
	l.t.Helper()
	l.alter("PRAGMA wal_checkpoint(TRUNCATE)") // a page in the WAL would hide the damage
	db, err := sql.Open("sqlite", "file:"+l.path()+"?mode=ro")
	l.must(err)
	defer func() { _ = db.Close() }() // it only reads
	page, size := int64(1), int64(0)
	if name != "sqlite_schema" {
		l.must(db.QueryRowContext(l.t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name=?", name).Scan(&page))
	}
	l.must(db.QueryRowContext(l.t.Context(), "PRAGMA page_size").Scan(&size))
	file, err := os.OpenFile(l.path(), os.O_WRONLY, 0)
	l.must(err)
	defer func() { _ = file.Close() }() // WriteAt reports errors
	from := (page - 1) * size
	if page == 1 {
		from = 100 // after the header of the file
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, int(page*size-from)), from)
	l.must(err)
}

// A file that no reader can open is replaced.
func TestReplica_Verify_FileThatCannotBeOpenedIsReplaced(t *testing.T) {
	for name, spoil := range map[string]func(*live){
		"SchemaDamaged":   func(l *live) { l.damage("sqlite_schema") },
		"PositionDamaged": func(l *live) { l.damage("rs_applied") },
		"NoPosition":      func(l *live) { l.alter("DELETE FROM rs_applied") },
		"Removed":         func(l *live) { l.must(os.Remove(l.path())) },
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.NewStore(t, schema)
			fill(store, 1, 5)
			l := bound(t, store, nil)
			l.reaches(5)
			spoil(l)
			if _, err := l.Verify(t.Context()); err == nil {
				t.Error("the file can be read")
			}
			l.repaired(5)
			l.equals(store)
		})
	}
}

// A file that cannot be opened for another reason stays: a process without free file descriptors could not open the next
// file either, and reads on open connections go on.
func TestReplica_Verify_FileThatCannotBeOpenedNowStays(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 5)
	l := bound(t, store, nil)
	l.reaches(5)
	path := l.path()
	l.must(os.Rename(path, path+".aside"))
	l.must(os.Symlink(path, path)) // it exists and cannot be opened
	if _, err := l.Verify(t.Context()); err == nil {
		t.Error("the file can be read")
	}
	l.must(os.Remove(path))
	l.must(os.Rename(path+".aside", path))
	l.broadcast(fill(store, 6, 6)...)
	l.reaches(6)
	if got := l.Stats.Snapshots.Load(); got != 1 {
		t.Errorf("got %d snapshots, want 1", got)
	}
}

// A read that meets damage has the file replaced. If the next file has the damage too, persdb's file may have it: then
// only the reads that meet it fail.
func TestReader_Read_DamagedFileIsReplacedOnce(t *testing.T) {
	store := workertest.NewStore(t, schema, "CREATE INDEX nv ON n(v)", "CREATE TABLE m (k INTEGER PRIMARY KEY) STRICT")
	fill(store, 1, 5)
	l := bound(t, store, nil)
	l.reaches(5)
	byIndex := func() dbaas.Code {
		rd, err := l.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		statement := dbaas.Statement{SQL: "SELECT v FROM n WHERE v='v3'"}
		return rd.Read(t.Context(), &dbaas.Read{
			Format: dbaas.FormatObjects, Deadline: time.Now().Add(time.Hour), Statements: []dbaas.Statement{statement},
		}).Code
	}
	for range 2 {
		l.damage("nv")
		if got := byIndex(); got != dbaas.CodeInternal {
			t.Errorf("got %q from a damaged index, want internal", got)
		}
		l.repaired(5)
	}
	l.broadcast(store.Write(dbaas.Statement{SQL: "INSERT INTO m VALUES(1)"}))
	l.reaches(6)
	if got := l.Stats.Snapshots.Load(); got != 2 {
		t.Errorf("got %d snapshots, want 2", got)
	}
}
