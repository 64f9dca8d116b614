package commitlog_test

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

// loading returns operation n, which loads a text.
func loading(n int, mode dbaas.LoadMode, text string) dbaas.Operation {
	op := storetest.Op(n, text)
	op.Load, op.Deadline = mode, time.Now().Add(30*time.Second+dbaas.LoadGrace)
	return op
}

// load loads a text in a commit of its own and returns its outcome.
func load(t *testing.T, s *commitlog.Store, n int, mode dbaas.LoadMode, text string) string {
	t.Helper()
	return outcome(storetest.Commit(t, s, storetest.Claim(t, s), loading(n, mode, text)).Results[0])
}

// backup returns a whole backup.
func backup(t *testing.T, s *commitlog.Store, form dbaas.BackupForm) (dbaas.Head, []byte) {
	t.Helper()
	b, err := s.Backup(t.Context(), form)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(b.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err = b.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Head, body
}

// sameTables fails the test unless both stores have equal tables, row ids included.
func sameTables(t *testing.T, a, b *commitlog.Store) bool {
	t.Helper()
	want, err := a.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Tables, got.Tables); d != "" {
		t.Errorf("tables differ (-want +got):\n%s", d)
	}
	return !t.Failed()
}

// Backups of any schema load into a database without tables of its own, as text and as a file, and
// give equal tables; a replica follows.
func TestStore_Backup_LoadsIntoAFreshDatabase(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		s := open(t, commitlog.Config{})
		epoch := storetest.Claim(t, s)
		for _, b := range sqlgen.Make(seed).Batches {
			for i := range b.Operations {
				o := &b.Operations[i]
				op := dbaas.Operation{ID: storetest.ID(o.Number), Atomic: o.Atomic, Statements: o.SQL()}
				op.Fingerprint = wire.FingerprintOf(o.Atomic, op.Statements)
				storetest.Commit(t, s, epoch, op)
			}
		}
		extra := "CREATE TABLE plain(a, b TEXT, c GENERATED ALWAYS AS (b||'x') VIRTUAL); CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v REAL);" +
			"INSERT INTO plain(_rowid_, a, b) VALUES(-4, 1e999, 'it''s'), (1, -0.0, CAST(x'6100ff' AS TEXT)), (2, x'00', ''), (9, -9223372036854775808, ';\n--');" +
			"INSERT INTO counted VALUES(7, 0.1); DELETE FROM counted; INSERT INTO users VALUES('ann','p'); CREATE VIEW seen AS SELECT * FROM plain;" +
			"CREATE TRIGGER seen_in INSTEAD OF INSERT ON seen BEGIN INSERT INTO plain(a) VALUES(new.a); END;"
		if got := load(t, s, 100_000, dbaas.LoadText, extra); strings.Contains(got, "error") {
			t.Logf("seed %d: %s", seed, got)
		}
		head, text := backup(t, s, dbaas.BackupForm{SQL: true})
		if now, _ := s.Head(t.Context()); head != now {
			t.Errorf("got the head %+v, want %+v", head, now)
		}
		_, file := backup(t, s, dbaas.BackupForm{})
		again, err := s.FileSQL(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(text), string(again)); d != "" {
			t.Errorf("the text of the file differs from the text (-text +file):\n%s", d)
		}
		asText, asFile := open(t, commitlog.Config{}), open(t, commitlog.Config{})
		replica := storetest.NewReplica(t, asText)
		for mode, to := range map[dbaas.LoadMode]*commitlog.Store{dbaas.LoadText: asText, dbaas.LoadReplace: asFile} {
			if got := load(t, to, 1, mode, string(text)); !sameTables(t, s, to) {
				t.Fatalf("seed %d, mode %d: %s\n%s", seed, mode, got, text)
			}
		}
		replica.Follow(t, asText)
	}
}

// A comment at the end of a schema's statement takes nothing of what follows it in a backup.
func TestStore_Backup_CommentsAtTheEnd(t *testing.T) {
	t.Parallel()
	schema := func(comments ...string) dbaas.Operation {
		var text []string
		for i, sql := range []string{
			"CREATE TABLE plain(a)", "CREATE TABLE without(a PRIMARY KEY) WITHOUT ROWID", "CREATE TABLE strict(a ANY) STRICT",
			"CREATE INDEX i ON plain(a)", "CREATE VIEW v AS SELECT a FROM plain", "CREATE TRIGGER r AFTER INSERT ON without BEGIN INSERT INTO plain VALUES(new.a); END",
		} {
			text = append(text, sql+comments[i%len(comments)])
		}
		return storetest.Op(1, append(text, "INSERT INTO without VALUES(1)", "INSERT INTO strict VALUES(2)")...)
	}
	want := open(t, commitlog.Config{})
	storetest.Commit(t, want, storetest.Claim(t, want), schema(""))
	for name, comments := range map[string][]string{"Line": {" -- x"}, "Open": {" /* x"}, "Closed": {" /* x */"}, "Blanks": {" \n"}, "Mixed": {" -- x; y", " /* x; y", "/* x */ -- y"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			storetest.Commit(t, s, storetest.Claim(t, s), schema(comments...))
			_, text := backup(t, s, dbaas.BackupForm{SQL: true})
			_, file := backup(t, s, dbaas.BackupForm{})
			ofFile, err := s.FileSQL(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			for form, sql := range map[string][]byte{"text": text, "file": ofFile} {
				to := open(t, commitlog.Config{})
				if got := load(t, to, 1, dbaas.LoadReplace, string(sql)); !sameTables(t, want, to) {
					t.Errorf("the %s: %s\n%s", form, got, sql)
				}
			}
		})
	}
}

// A number comes back bit by bit.
func TestStore_Backup_KeepsFloats(t *testing.T) {
	t.Parallel()
	s, to := open(t, commitlog.Config{}), open(t, commitlog.Config{})
	rnd := rand.New(rand.NewPCG(1, 2))
	op := storetest.Op(1, "CREATE TABLE f(v)")
	for range 2000 {
		v := dbaas.Float(math.Float64frombits(rnd.Uint64()))
		op.Statements = append(op.Statements, dbaas.Statement{SQL: "INSERT INTO f VALUES(?)", Args: []dbaas.Value{v}})
	}
	storetest.Commit(t, s, storetest.Claim(t, s), op)
	_, text := backup(t, s, dbaas.BackupForm{SQL: true})
	load(t, to, 1, dbaas.LoadText, string(text))
	sameTables(t, s, to)
}

// A load takes effect as a whole or not at all, and its foreign keys are checked at its end.
func TestStore_Load_Outcomes(t *testing.T) {
	t.Parallel()
	tables := func(order ...string) string { return strings.Join(order, ";") }
	const (
		parent = "CREATE TABLE p(id INTEGER PRIMARY KEY, u TEXT); INSERT INTO p VALUES(1,'a')"
		child  = "CREATE TABLE c(p REFERENCES p); INSERT INTO c VALUES(1)"
	)
	for name, tc := range map[string]struct {
		text, want, left string
	}{
		"LastResult":                 {"BEGIN; CREATE TABLE x(a); INSERT INTO x VALUES(1),(2); COMMIT;", "2 rows", "x"},
		"NothingButFraming":          {"BEGIN IMMEDIATE TRANSACTION;END;PRAGMA foreign_keys = ON; -- x", "", ""},
		"ChildBeforeParent":          {tables(child, parent), "", "c p"},
		"ChildAfterAnEmptiedTable":   {tables("CREATE TABLE x(a)", "INSERT INTO x SELECT value FROM json_each('[0'||replace(hex(zeroblob(1000)),'00',',0')||']')", "DELETE FROM x", child, parent), "", "c p x"},
		"RowBeforeItsParent":         {"CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p); INSERT INTO c VALUES(1); INSERT INTO p VALUES(1)", "", "c p"},
		"KeyAfterTheRows":            {"CREATE TABLE p(u); CREATE TABLE c(p REFERENCES p(u)); INSERT INTO c VALUES(1); INSERT INTO p VALUES(1); CREATE UNIQUE INDEX i ON p(u)", "", "c p"},
		"Cascade":                    {"CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p ON DELETE CASCADE); INSERT INTO p VALUES(1); INSERT INTO c VALUES(1); DELETE FROM p", "", "c p"},
		"NoParent":                   {"CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p); INSERT INTO c VALUES(2)", "FOREIGN KEY constraint failed", ""},
		"NoParentTable":              {child, "FOREIGN KEY constraint failed", ""},
		"FailsAtTheEnd":              {"CREATE TABLE x(a); INSERT INTO x VALUES(1); SELEC 1", `near "SELEC": syntax error`, ""},
		"FailsInTheMiddle":           {"CREATE TABLE x(a UNIQUE); INSERT INTO x VALUES(1); INSERT OR ROLLBACK INTO x VALUES(1); INSERT INTO x VALUES(2)", "UNIQUE constraint failed: x.a", ""},
		"Savepoint":                  {"SAVEPOINT a", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", ""},
		"Rollback":                   {"CREATE TABLE x(a); ROLLBACK", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", ""},
		"OtherTableOfTheApplication": {"CREATE TABLE users(a)", "table users already exists", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, commitlog.Config{})
			replica := storetest.NewReplica(t, s)
			result := storetest.Commit(t, s, storetest.Claim(t, s), loading(1, dbaas.LoadText, tc.text)).Results[0]
			if len(result.Statements) != 1 {
				t.Fatalf("got %d results, want one: %+v", len(result.Statements), result)
			}
			got := result.Statements[0].Message
			if tc.want == "2 rows" && result.Statements[0].RowsAffected == 2 {
				got = tc.want
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			replica.Follow(t, s)
			if got := tablesAmong(t, s, "c", "p", "x"); got != tc.left {
				t.Errorf("tables: got %q, want %q", got, tc.left)
			}
		})
	}
}

// tablesAmong returns which of the tables exist.
func tablesAmong(t *testing.T, s *commitlog.Store, names ...string) string {
	t.Helper()
	hashes, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	missing := func(name string) bool { return hashes.Tables[name] == "" }
	return strings.Join(slices.DeleteFunc(names, missing), " ")
}

// A load that replaces drops what is there, but no row.
func TestStore_Load_ReplacesOnlyEmptyTables(t *testing.T) {
	t.Parallel()
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, storetest.Op(1, "CREATE TABLE old(a)", "CREATE INDEX i ON users(password)", "CREATE VIEW v AS SELECT 1", "INSERT INTO old VALUES(1)"))
	r := storetest.Commit(t, s, epoch, loading(2, dbaas.LoadReplace, "CREATE TABLE new(a)")).Results[0]
	if want := "table old has rows: a database file is loaded only while no table has any"; r.Code != dbaas.CodeConflict || r.Message != want {
		t.Errorf("got %s %q, want a conflict", r.Code, r.Message)
	}
	storetest.Commit(t, s, epoch, storetest.Op(3, "DELETE FROM old"))
	storetest.Commit(t, s, epoch, loading(4, dbaas.LoadReplace, "CREATE TABLE new(a)"))
	fresh := open(t, commitlog.Config{})
	load(t, fresh, 1, dbaas.LoadText, "CREATE TABLE new(a)")
	sameTables(t, fresh, s)
}

// A load is committed alone: its neighbours do not wait for it.
func TestStore_Load_IsCommittedAlone(t *testing.T) {
	t.Parallel()
	s := open(t, commitlog.Config{})
	out := storetest.Commit(t, s, storetest.Claim(t, s), loading(1, dbaas.LoadText, "CREATE TABLE a(b)"), storetest.Op(2, "CREATE TABLE x(y)"))
	if out.Results[0].Code != dbaas.CodeSlow || out.Results[1].Code != dbaas.CodeOK {
		t.Errorf("got %+v", out.Results)
	}
}

// A load that takes too long leaves nothing, and its answer comes before its deadline.
func TestStore_Load_HasATimeLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := reopen(t, commitlog.Config{Dir: dir})
		epoch := storetest.Claim(t, s)
		s.Pace(func() { time.Sleep(2 * time.Millisecond) }) // nothing else takes time here
		op := loading(1, dbaas.LoadText, "CREATE TABLE x(a); "+strings.Repeat("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200000) INSERT INTO x SELECT max(i) FROM n;", 1000))
		op.Deadline = time.Now().Add(dbaas.LoadGrace + 300*time.Millisecond)
		r := storetest.Commit(t, s, epoch, op).Results[0]
		if time.Now().After(op.Deadline) || len(r.Statements) != 1 || r.Statements[0].Message != "execute timeout" {
			t.Errorf("got %+v, %v before the deadline", r, time.Until(op.Deadline))
		}
		if left := tablesAmong(t, s, "x"); left != "" {
			t.Errorf("the table %s is left", left)
		}
		closeStore(t, s)
	})
}

// At most two backups exist at a time; their files go when they are closed, and at the next start
// after a crash.
func TestStore_Backup_FilesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "backups", "of a dead process"), 0o750); err != nil {
		t.Fatal(err)
	}
	s := open(t, commitlog.Config{Dir: dir})
	files := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "backups", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	var all []*dbaas.Backup
	for _, form := range []dbaas.BackupForm{{}, {SQL: true}} {
		b, err := s.Backup(t.Context(), form)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if _, err := s.Backup(t.Context(), dbaas.BackupForm{}); dbaas.CodeOf(err) != dbaas.CodeUnavailable || files() != 2 {
		t.Errorf("a third backup: got %v and %d files, want it refused and 2", err, files())
	}
	for _, b := range all {
		if err := b.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Backup(t.Context(), dbaas.BackupForm{SQL: true, Tables: []string{"rs_log"}}); dbaas.CodeOf(err) != dbaas.CodeInvalid || files() != 0 {
		t.Errorf("an internal table: got %v and %d files, want it refused and none", err, files())
	}
}

// A file that is no whole database of plain tables is refused with the reason, within the limits of
// time and memory.
func TestStore_FileSQL_RefusesHostileFiles(t *testing.T) {
	t.Parallel()
	s := open(t, commitlog.Config{})
	load(t, s, 1, dbaas.LoadText, "CREATE TABLE t(a); "+strings.Repeat("INSERT INTO t VALUES(hex(randomblob(500)));", 50))
	_, file := backup(t, s, dbaas.BackupForm{})
	cut := file[:len(file)/2]
	flipped := append([]byte(nil), file...)
	for i := 4096; i < len(flipped); i += 4096 {
		flipped[i] ^= 0x5a
	}
	for name, bad := range map[string][]byte{"Short": file[:50], "Cut": cut, "Flipped": flipped, "Zeros": append([]byte("SQLite format 3\x00"), make([]byte, 8192)...)} {
		if _, err := s.FileSQL(t.Context(), bad); dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	if _, err := s.FileSQL(t.Context(), witnessFile(t, "CREATE VIRTUAL TABLE x USING fts5(a)")); dbaas.CodeOf(err) != dbaas.CodeInvalid {
		t.Errorf("a virtual table: got %v, want it refused", err)
	}
	if text, err := s.FileSQL(t.Context(), witnessFile(t, "PRAGMA journal_mode=WAL; CREATE TABLE x(a); INSERT INTO x VALUES(1)")); err != nil || !strings.Contains(string(text), `INSERT INTO "x" VALUES(1);`) {
		t.Errorf("a file in WAL mode: got %v, %s", err, text)
	}
}
