package e2e

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // An independent witness: another driver than the product's.
)

// checkStore reads persdb's file after a graceful end: it is whole, its foreign
// keys hold, the log is dense up to its head, and epochs never decrease along it.
func (s *system) checkStore(t *testing.T) {
	t.Helper()
	file := url.URL{Scheme: "file", Path: filepath.Join(s.dataDir(), "persdb.db"), RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // Opened to read.
	for _, c := range []struct{ what, query, want string }{
		{"integrity", `PRAGMA integrity_check`, "ok"},
		{"rows with a broken foreign key", `SELECT count(*) FROM pragma_foreign_key_check`, "0"},
		{"entries", `SELECT count(*) > 0 FROM rs_log`, "1"},
		{"entries missing from the log", `SELECT max(seq) - trimmed - count(*) FROM rs_log, rs_bounds`, "0"},
		{"entries with an epoch below their predecessor's", `SELECT count(*) FROM rs_log a JOIN rs_log b ON b.seq = a.seq + 1 WHERE b.epoch < a.epoch`, "0"},
		{"entries with an epoch that was never given out", `SELECT count(*) FROM rs_log, rs_epoch WHERE epoch > cur OR epoch < 1`, "0"},
	} {
		var got string
		if err = db.QueryRowContext(t.Context(), c.query).Scan(&got); err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}
