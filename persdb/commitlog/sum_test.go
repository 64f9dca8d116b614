package commitlog_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// sqlOn runs one statement on a file of a closed store, independently of the store.
func sqlOn(t *testing.T, cfg commitlog.Config, file, text string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(cfg.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err = db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// flip flips one bit in a column of entry 2: in the byte at an offset, or in a number.
func flip(t *testing.T, cfg commitlog.Config, column string, at int) {
	t.Helper()
	if column != "ops" && column != "changes" {
		sqlOn(t, cfg, commitlog.LogFileName, fmt.Sprintf("UPDATE rs_log SET %[1]s=(%[1]s|8)-(%[1]s&8) WHERE seq=2", column))
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(cfg.Dir, commitlog.LogFileName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var b []byte
	if err = db.QueryRowContext(t.Context(), "SELECT "+column+" FROM rs_log WHERE seq=2").Scan(&b); err != nil {
		t.Fatal(err)
	}
	b[(at+len(b))%len(b)] ^= 8
	sqlOn(t, cfg, commitlog.LogFileName, "UPDATE rs_log SET "+column+"=? WHERE seq=2", b)
}

// threeEntries creates and closes a store of three entries with two operations each.
func threeEntries(t *testing.T) commitlog.Config {
	t.Helper()
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	for n := 1; n <= 3; n++ {
		storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO apicount VALUES('service%d', 0)", n)), op(10+n, "UPDATE apicount SET count=0"))
	}
	closeStore(t, s)
	return cfg
}

// Whatever bit of an entry flips on the disk: the store starts and logs it, no replica gets the entry, its operations
// do not run again, and the stored answer is returned only if it is intact.
func TestStore_Open_DamagedEntryIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		column  string
		at      int
		answers bool      // the operations are intact
		seen    dbaas.Seq // position seen by the second operation when it is repeated
	}{
		"Epoch":       {column: "epoch", seen: 3},
		"Time":        {column: "at", seen: 3},
		"Sum":         {column: "sum", answers: true, seen: 3},
		"FirstOfOps":  {column: "ops", seen: 1}, // cannot be decoded
		"Fingerprint": {column: "ops", at: 10, seen: 3},
		"LastOfOps":   {column: "ops", at: -1, seen: 3},
		"FirstChange": {column: "changes", answers: true, seen: 3},
		"LastChange":  {column: "changes", at: -1, answers: true, seen: 3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := threeEntries(t)
			flip(t, cfg, tc.column, tc.at)
			var lines bytes.Buffer
			cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
			s := open(t, cfg)
			if !strings.Contains(lines.String(), `"entry of the log is damaged on the disk" seq=2`) {
				t.Errorf("the start said nothing: %s", &lines)
			}
			wantDamaged(t, s)
			epoch := storetest.Claim(t, s)
			before := storetest.Commit(t, s, epoch, op(1, "INSERT INTO apicount VALUES('service1', 0)"), seen(2, tc.seen, "INSERT INTO apicount VALUES('service2', 0)"),
				seen(4, 1, "UPDATE apicount SET count=count+1"), seen(5, 2, "UPDATE apicount SET count=count+10"))
			want := []string{"ok", "refused expired", "refused expired", "ok"}
			if tc.answers {
				want[1], want[2] = "ok", "ok"
			}
			for i, r := range before.Results {
				if got := outcome(r); got != want[i] {
					t.Errorf("operation %d: got %q, want %q", i, got, want[i])
				}
			}
			if tc.answers && before.Results[1].Seq != 2 {
				t.Errorf("got position %d of the stored answer, want 2", before.Results[1].Seq)
			}
			storetest.NewReplica(t, s).Follow(t, s)
		})
	}
}

// wantDamaged checks that the log returns the entries before and after entry 2, but not entry 2.
func wantDamaged(t *testing.T, s *commitlog.Store) {
	t.Helper()
	for after, want := range map[dbaas.Seq]dbaas.Seq{0: 1, 2: 3} {
		page, err := s.Log(t.Context(), after, 0)
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Seq != want {
			t.Errorf("after %d: got %+v, %v, want entry %d", after, page, err, want)
		}
	}
	if _, err := s.Log(t.Context(), 1, 0); dbaas.CodeOf(err) != dbaas.CodeDamaged || !strings.Contains(err.Error(), "entry 2 ") {
		t.Errorf("after 1: got %v, want damaged entry 2", err)
	}
}

// Damage that occurs while the store is open is detected too, and trimming continues past it.
func TestStore_Trim_DamagedEntryGoes(t *testing.T) {
	clk := newClock()
	cfg := clk.config(threeEntries(t).Dir)
	s := open(t, cfg)
	clk.advance(2 * time.Hour)
	flip(t, cfg, "ops", 0)
	wantDamaged(t, s)
	if _, err := s.Lookup(t.Context(), storetest.ID(2)); dbaas.CodeOf(err) != dbaas.CodeDamaged {
		t.Errorf("got %v, want code %q", err, dbaas.CodeDamaged)
	}
	if got := trim(t, s); got != 2 {
		t.Errorf("trimmed %d entries, want 2", got)
	}
	if _, err := s.Lookup(t.Context(), storetest.ID(2)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
		t.Errorf("got %v, want code %q", err, dbaas.CodeNotFound)
	}
}

// The log of an older version, without sums, can be opened and read, and new entries have sums.
func TestStore_Open_LogWithoutSums(t *testing.T) {
	cfg := threeEntries(t)
	oneFile(t, cfg.Dir)
	sqlOn(t, cfg, commitlog.FileName, "ALTER TABLE rs_log DROP COLUMN sum")
	sqlOn(t, cfg, commitlog.FileName, "UPDATE rs_log SET ops=x'00' WHERE seq=1")
	s := reopen(t, cfg)
	c := storetest.Commit(t, s, storetest.Claim(t, s), op(1, "DELETE FROM apicount"), op(3, "INSERT INTO apicount VALUES('service3', 0)"), seen(4, 3, "DELETE FROM apicount"))
	if got := []string{outcome(c.Results[0]), outcome(c.Results[1]), outcome(c.Results[2])}; got[0] != "refused expired" || got[1] != "ok" || got[2] != "ok" {
		t.Errorf("got %v, want the first refused", got)
	}
	if page, err := s.Log(t.Context(), 1, 0); err != nil || len(page.Entries) != 3 {
		t.Errorf("got %+v, %v, want 3 entries", page, err)
	}
	closeStore(t, s)
	sqlOn(t, cfg, commitlog.LogFileName, "UPDATE rs_log SET changes=x'00' WHERE seq=4")
	s = open(t, cfg)
	if _, err := s.Log(t.Context(), 3, 0); dbaas.CodeOf(err) != dbaas.CodeDamaged {
		t.Errorf("got %v, want code %q", err, dbaas.CodeDamaged)
	}
}
