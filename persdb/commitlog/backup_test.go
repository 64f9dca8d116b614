package commitlog_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

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
