package e2e

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // An independent reader: another driver than the product's.
)

// checkStore reads persdb's files after a graceful end. The files must be intact, foreign keys must hold, the log must
// be dense up to its head, and epochs must never decrease along it.
func (s *system) checkStore(t *testing.T) {
	t.Helper()
	s.checkFile(t, "persdb.db", []storeCheck{
		{"integrity", `PRAGMA integrity_check`, "ok"},
		{"rows with a broken foreign key", `SELECT count(*) FROM pragma_foreign_key_check`, "0"},
		{"tables of the log", `SELECT count(*) FROM sqlite_schema WHERE name='rs_log'`, "0"},
	})
	s.checkFile(t, "log.db", []storeCheck{
		{"integrity", `PRAGMA integrity_check`, "ok"},
		{"entries", `SELECT count(*) > 0 FROM rs_log`, "1"},
		{"entries missing from the log", `SELECT max(seq) - trimmed - count(*) FROM rs_log, rs_bounds`, "0"},
		{"entries with an epoch below their predecessor's", `SELECT count(*) FROM rs_log a JOIN rs_log b ON b.seq = a.seq + 1 WHERE b.epoch < a.epoch`, "0"},
		{"entries with an epoch that was never given out", `SELECT count(*) FROM rs_log, rs_epoch WHERE epoch > cur OR epoch < 1`, "0"},
	})
}

// storeCheck is a query on a file of persdb, with its only right answer.
type storeCheck struct{ what, query, want string }

func (s *system) checkFile(t *testing.T, name string, checks []storeCheck) {
	t.Helper()
	file := url.URL{Scheme: "file", Path: filepath.Join(s.dataDir(), name), RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // Opened to read.
	for _, c := range checks {
		var got string
		if err = db.QueryRowContext(t.Context(), c.query).Scan(&got); err != nil {
			t.Errorf("%s: %s: %v", name, c.what, err)
		} else if got != c.want {
			t.Errorf("%s: %s: got %s, want %s", name, c.what, got, c.want)
		}
	}
}
