package restore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/archive"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/restore"
)

// schema is a small application with a table that clients must not change.
var schema = commitlog.Config{Schema: []string{"CREATE TABLE app(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)"}, Protected: []string{"app"}}

func in(dir string) commitlog.Config {
	cfg := schema
	cfg.Dir, cfg.TrimEvery = dir, -1
	cfg.StatementLimit, cfg.OperationLimit = time.Minute, time.Minute // however slow the machine is
	return cfg
}

func open(t *testing.T, dir string) *commitlog.Store {
	t.Helper()
	s, err := commitlog.Open(t.Context(), in(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill runs a random script. Statements that fail are part of it.
func fill(t *testing.T, s *commitlog.Store, seed uint64) {
	t.Helper()
	epoch := storetest.Claim(t, s)
	for _, b := range sqlgen.Make(seed).Batches {
		for i := range b.Operations {
			op := storetest.Op(b.Operations[i].Number)
			op.Atomic, op.Statements = b.Operations[i].Atomic, b.Operations[i].SQL()
			op.Fingerprint = wire.FingerprintOf(op.Atomic, op.Statements)
			storetest.Commit(t, s, epoch, op)
		}
	}
}

// backup writes the backup of a store to a file.
func backup(t *testing.T, s *commitlog.Store) string {
	t.Helper()
	b, err := s.Backup(t.Context(), dbaas.BackupForm{})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(b.Body)
	if err = errors.Join(err, b.Body.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	if err = os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// contents returns the hashes of all tables, which cover rows, row ids and schema, and the counters of a store in dir.
func contents(t *testing.T, s *commitlog.Store, dir string) map[string]string {
	t.Helper()
	h, err := s.Hashes(t.Context())
	if err != nil || len(h.Damaged) > 0 {
		t.Fatalf("hashes: %v, damaged %v", err, h.Damaged)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.FileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var counters sql.NullString
	err = db.QueryRowContext(t.Context(), "SELECT group_concat(name || '=' || seq, ' ') FROM (SELECT * FROM sqlite_sequence ORDER BY 1)").Scan(&counters)
	if err != nil {
		t.Fatal(err)
	}
	h.Tables["(counters)"] = counters.String
	return h.Tables
}

// A folder from a backup has the rows, row ids, counters and schema of the original, a cluster id of its own, and nothing
// of the log.
func TestFromFile_LikeTheOriginal(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			first := t.TempDir()
			s := open(t, first)
			fill(t, s, seed)
			op := storetest.Op(1000, "INSERT INTO app(name) VALUES('ann'),('bob')", "DELETE FROM app WHERE name='bob'", "CREATE VIEW noted AS SELECT name AS rs_name FROM app")
			if got := storetest.Commit(t, s, storetest.Claim(t, s), op).Results[0].Statements[2]; got.Code != dbaas.CodeOK {
				t.Fatalf("a name that begins with rs_, but not a table's: got %+v", got)
			}
			was, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			dir := filepath.Join(t.TempDir(), "data")
			made, err := restore.FromFile(t.Context(), in(dir), backup(t, s))
			if err != nil {
				t.Fatal(err)
			}
			restored := open(t, dir)
			if diff := cmp.Diff(contents(t, s, first), contents(t, restored, dir)); diff != "" {
				t.Errorf("content (-original +restored):\n%s", diff)
			}
			head, err := restored.Head(t.Context())
			if err != nil || head.Cluster != made.Cluster || head.Cluster == was.Cluster || head.Seq != 0 || head.Epoch != 0 {
				t.Errorf("got head %+v, %v, want 0 of the new cluster %s", head, err, made.Cluster)
			}
			if parent, err := archive.ReadParent(dir); parent != nil || err != nil {
				t.Errorf("got parent %+v, %v, want none: the file names none", parent, err)
			}
			// The key was used before, but the folder does not know that.
			epoch := storetest.Claim(t, restored)
			storetest.Commit(t, restored, epoch, op)
			got := storetest.Commit(t, restored, epoch, storetest.Op(1001, "INSERT INTO app(name) VALUES('cid') RETURNING id"))
			if id := got.Results[0].Statements[0].LastInsertID; id != 5 {
				t.Errorf("the next row has id %d, want 5: no id is used again", id)
			}
		})
	}
}

// databaseOf writes a database file by another way than the store's.
func databaseOf(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
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
	return path
}

// A file that cannot be the tables of a database is refused, and nothing is left.
func TestFromFile_UnusableFile(t *testing.T) {
	const app = "CREATE TABLE app(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);"
	text := filepath.Join(t.TempDir(), "text")
	side := databaseOf(t, app)
	for path, content := range map[string]string{text: strings.Repeat("no database ", 100), side + "-wal": "x"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(bytes int64) string {
		path := databaseOf(t, app+"CREATE TABLE t(x); WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000) INSERT INTO t SELECT i FROM n")
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw := t.TempDir()
	own, err := commitlog.Open(t.Context(), in(raw))
	if err == nil {
		err = own.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	forged := func(script, change string) string {
		return databaseOf(t, app+script+";PRAGMA writable_schema=ON;UPDATE sqlite_schema SET "+change)
	}
	const sums = "CREATE TABLE rs_sums(name TEXT PRIMARY KEY, rows INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	const fts = "CREATE VIRTUAL TABLE v USING fts5(x)"
	for name, c := range map[string]struct{ file, want string }{
		"missing":                     {filepath.Join(t.TempDir(), "none"), "no such file"},
		"a folder":                    {t.TempDir(), "not a regular file"},
		"text":                        {text, "not a database"},
		"half":                        {cut(4 * 4096), "damaged"},
		"without end":                 {cut(1), "damaged: its pages take"},
		"virtual table":               {databaseOf(t, app+fts), "virtual table"},
		"virtual table with a page":   {forged(fts, "rootpage=2, sql=replace(sql, ' ', '/**/') WHERE name='v'"), "table v of the file is a virtual table"},
		"system's table":              {databaseOf(t, app+sums), "names that begin with rs_ are reserved"},
		"reserved view":               {databaseOf(t, app+"CREATE VIEW Rs_v AS SELECT 1"), "names that begin with rs_ are reserved"},
		"trigger on a system's table": {databaseOf(t, app+sums+"CREATE TRIGGER evil AFTER UPDATE ON RS_sums BEGIN DELETE FROM app; END"), "drop it from the file and try again: trigger evil: no such table: RS_sums"},
		"forged trigger":              {forged("CREATE TABLE t(x);CREATE TRIGGER evil AFTER UPDATE ON t BEGIN DELETE FROM app; END", "sql=replace(sql, 'ON t', 'ON app') WHERE name='evil'"), "malformed"},
		"trigger":                     {databaseOf(t, app+"CREATE TRIGGER evil AFTER INSERT ON App BEGIN DELETE FROM app; END"), "trigger evil: App belongs to the application"},
		"unique index":                {databaseOf(t, app+"CREATE UNIQUE INDEX evil ON app(name)"), "app belongs to the application and cannot have another index"},
		"foreign key":                 {databaseOf(t, app+"CREATE TABLE t(x REFERENCES rs_sums ON DELETE CASCADE)"), "no such table: rs_sums"},
		"row id without a name":       {databaseOf(t, app+"CREATE TABLE t(rowid, _rowid_, oid)"), "table t needs a PRIMARY KEY"},
		"view of a system's table":    {databaseOf(t, app+"CREATE VIEW v AS SELECT seq FROM RS_applied"), "v refers to RS_applied, which belongs to the system"},
		"trigger that names one":      {databaseOf(t, app+"CREATE TABLE t(x);CREATE TRIGGER evil AFTER INSERT ON t BEGIN DELETE FROM rs_cluster; END"), "evil refers to rs_cluster"},
		"pages":                       {databaseOf(t, "PRAGMA page_size=8192;"+app), "page_size is 8192"},
		"UTF-16":                      {databaseOf(t, "PRAGMA encoding='UTF-16le';"+app), "encoding is UTF-16le"},
		"another":                     {databaseOf(t, "CREATE TABLE theirs(x)"), "has no app"},
		"persdb's own":                {filepath.Join(raw, commitlog.FileName), "copy the whole folder"},
		"with a WAL":                  {side, "-wal"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := restore.FromFile(t.Context(), in(filepath.Join(parent, "data")), c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, restore.ErrTarget) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left := names(t, parent); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A file whose CHECKs and VIRTUAL columns fail when a check of the file computes them is restored, and the folder starts again.
func TestFromFile_ExpressionsAreNotComputed(t *testing.T) {
	file := databaseOf(t, `CREATE TABLE app(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT); INSERT INTO app(name) VALUES('ann');
		CREATE TABLE x(v CHECK(last_insert_rowid()<>0)); INSERT INTO x VALUES(1);
		CREATE TABLE j(v TEXT); INSERT INTO j VALUES('not json'); ALTER TABLE j ADD COLUMN a TEXT AS (v->>'a');
		CREATE TABLE m(v); INSERT INTO m VALUES(1); ALTER TABLE m ADD COLUMN a TEXT AS (hex(zeroblob(400000000)))`)
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := restore.FromFile(t.Context(), in(dir), file); err != nil {
		t.Fatal(err)
	}
	contents(t, open(t, dir), dir)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Only a folder that is missing or empty is made. What a dead attempt left is removed.
func TestFromFile_Target(t *testing.T) {
	file := databaseOf(t, "CREATE TABLE gone(x); DROP TABLE gone")
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		refused bool
	}{
		"missing": {func(*testing.T, string) {}, false},
		"empty":   {func(t *testing.T, dir string) { t.Helper(); mkdir(t, dir) }, false},
		"dead": {func(t *testing.T, dir string) {
			t.Helper()
			mkdir(t, filepath.Join(filepath.Dir(dir), ".data.restoring", "backups"))
		}, false},
		"not empty": {func(t *testing.T, dir string) { t.Helper(); mkdir(t, filepath.Join(dir, "x")) }, true},
		"in use":    {func(t *testing.T, dir string) { t.Helper(); open(t, dir) }, true},
		"a file": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(dir, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "data")
			c.prepare(t, dir)
			made, err := restore.FromFile(t.Context(), in(dir), file)
			if (err != nil) != c.refused || c.refused && !errors.Is(err, restore.ErrTarget) {
				t.Fatalf("got %v, refused: want %v", err, c.refused)
			}
			if got := names(t, parent); !slices.Equal(got, []string{"data"}) {
				t.Errorf("beside the folder: %v", got)
			}
			if c.refused {
				return
			}
			s := open(t, dir)
			if head, err := s.Head(t.Context()); err != nil || head.Cluster != made.Cluster {
				t.Errorf("got %+v, %v, want cluster %s", head, err, made.Cluster)
			}
			if h, err := s.Hashes(t.Context()); err != nil || h.Tables["app"] == "" {
				t.Errorf("an empty file: got %+v, %v, want the application's tables", h, err)
			}
		})
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
}

// Two attempts at the same folder: one of them makes it.
func TestFromFile_TwoAtOnce(t *testing.T) {
	file, dir := databaseOf(t, "CREATE TABLE gone(x); DROP TABLE gone"), filepath.Join(t.TempDir(), "data")
	ended := make(chan error)
	for range 4 {
		go func() {
			_, err := restore.FromFile(t.Context(), in(dir), file)
			ended <- err
		}()
	}
	done := 0
	for range 4 {
		select {
		case err := <-ended:
			if err == nil {
				done++
			}
		case <-time.After(time.Minute):
			t.Fatal("an attempt does not end")
		}
	}
	if s := open(t, dir); done != 1 || s == nil {
		t.Errorf("%d attempts made the folder, want 1", done)
	}
}
