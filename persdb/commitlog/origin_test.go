package commitlog_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// foreign creates an SQLite file with a table that is not persdb's.
func foreign(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = db.ExecContext(t.Context(), "CREATE TABLE theirs(x)"); err != nil {
		t.Fatal(err)
	}
	if err = db.Close(); err != nil {
		t.Fatal(err)
	}
}

// If a database was created before, a missing, truncated or foreign file is refused with the next step for the
// operator, and left unchanged. A fresh directory, or one whose first start ended early, gets a new database.
func TestStore_Open_OnlyItsOwnDatabase(t *testing.T) {
	cut := func(n int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		used   bool // a database was made and written before
		change func(t *testing.T, path string)
		want   string // in the error; "" if it opens
	}{
		"Fresh":         {false, func(*testing.T, string) {}, ""},
		"EarlyEnd":      {false, func(t *testing.T, path string) { t.Helper(); write(t, path, ""); write(t, path+".lock", "") }, ""},
		"Own":           {true, func(*testing.T, string) {}, ""},
		"Empty":         {true, cut(0), "put a backup"},
		"Removed":       {true, remove, "put a backup"},
		"Half":          {true, cut(3 * 4096), "put a backup"},
		"Foreign":       {false, foreign, "is not a database that persdb made"},
		"ForeignAfter":  {true, func(t *testing.T, path string) { t.Helper(); remove(t, path); foreign(t, path) }, "is not a database that persdb made"},
		"GarbageHeader": {false, func(t *testing.T, path string) { t.Helper(); write(t, path, strings.Repeat("no database ", 500)) }, "put a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := commitlog.Config{Dir: t.TempDir()}
			path := filepath.Join(cfg.Dir, commitlog.FileName)
			if tc.used {
				s := reopen(t, cfg)
				storetest.Commit(t, s, storetest.Claim(t, s), op(1, ann))
				closeStore(t, s)
			}
			tc.change(t, path)
			before, _ := os.ReadFile(path) // it may be gone.
			cfg.TrimEvery = -1
			s, err := commitlog.Open(t.Context(), app(cfg))
			if err == nil {
				closeStore(t, s)
			}
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want code %q and %q", err, dbaas.CodeInternal, tc.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Errorf("the file was changed: %d bytes, %d before", len(after), len(before))
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A data folder keeps its cluster id; one of an older version gets an id at its next open; every folder has a different
// id.
func TestStore_Open_ClusterIDStays(t *testing.T) {
	seen := map[dbaas.ClusterID]bool{}
	for range 2 {
		cfg := commitlog.Config{Dir: t.TempDir()}
		id := func() dbaas.ClusterID {
			s := reopen(t, cfg)
			defer closeStore(t, s)
			head, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return head.Cluster
		}
		inFolder := func(want dbaas.ClusterID) {
			if got, err := commitlog.ClusterOf(cfg.Dir); err != nil || got != want {
				t.Errorf("id of the folder: got %s, %v, want %s", got, err, want)
			}
		}
		first := id()
		inFolder(first)
		if again := id(); again != first {
			t.Errorf("got %s, then %s", first, again)
		}
		sqlOn(t, cfg, commitlog.FileName, "DROP TABLE rs_cluster")
		inFolder(dbaas.ClusterID{})
		second := id()
		if again := id(); again != second {
			t.Errorf("after the upgrade: got %s, then %s", second, again)
		}
		seen[first], seen[second] = true, true
	}
	if len(seen) != 4 || seen[dbaas.ClusterID{}] {
		t.Errorf("got ids %v, want four", seen)
	}
}

// Only a folder with tables and log of persdb has an id. Looking for the id makes no file.
func TestClusterOf_NoDataFolder(t *testing.T) {
	for name, lacks := range map[string]string{"Nothing": "", "NoTables": commitlog.FileName, "NoLog": commitlog.LogFileName} {
		t.Run(name, func(t *testing.T) {
			cfg := commitlog.Config{Dir: t.TempDir()}
			path := filepath.Join(cfg.Dir, lacks)
			if lacks != "" {
				closeStore(t, reopen(t, cfg))
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if id, err := commitlog.ClusterOf(cfg.Dir); dbaas.CodeOf(err) != dbaas.CodeInvalid {
				t.Errorf("got %s, %v, want CodeInvalid", id, err)
			}
			if _, err := os.Stat(path); lacks != "" && err == nil {
				t.Errorf("%s was made", lacks)
			}
		})
	}
}
