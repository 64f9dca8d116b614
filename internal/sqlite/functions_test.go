package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// The functions that are not the engine's own answer as its own do, whatever they get.
func TestFunctions_AnswerAsTheEngine(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	plain, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "plain.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	// Few different characters, so that matches occur: letters in both cases, characters of two and three bytes,
	// wildcards, digits, a zero, parts of characters.
	part := rapid.SampledFrom([]string{"a", "A", "b", "ab", "é", "É", "€", "%", "_", "*", "?", "[", "]", "^", "-", "[^a-b]", "[]]", "k", "K", "0", "4F", "\x00", "\xc3", "\xa9", "\xe2\x82", "\xff", "\xc0\x80", "z", "@", "\xed\xa0\x80", "\U0001F600"})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 7).Draw(t, "parts"), "") })
	value := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Int64Range(-120, 120).Draw(t, "int")
		case 2:
			return rapid.SampledFrom([]float64{0, 1.5, -4.25, 1e20}).Draw(t, "float")
		case 3, 4:
			return []byte(text.Draw(t, "blob"))
		default:
			return text.Draw(t, "text")
		}
	})
	const list = `SELECT quote(r), typeof(r), length(r) FROM (SELECT `
	expressions := []string{
		"?1 LIKE ?2", "?1 NOT LIKE ?2", "?1 LIKE ?2 ESCAPE ?3", "?1 GLOB ?2", "glob(?1,?2)", "like(?1,?2,?3)", "instr(?1,?2)", "replace(?1,?2,?3)",
		"trim(?1,?2)", "ltrim(?1,?2)", "rtrim(?1,?2)", "unhex(?1,?2)", "trim(?1)", "instr(?1||?2,?2)", "replace(?1||?2||?1,?2,?3)", "(?1||?2) LIKE ('%'||?2||'%')",
		"trim(?2||?1||?2,?2)", "unhex(hex(?1)||?2||hex(?3),?2)", "(?1||?2||?3) GLOB ('*'||?2||'*')", "(?1||?2||?3) LIKE ('_%'||?2||'_')", "instr(CAST(?1||?2 AS BLOB),CAST(?2 AS BLOB))",
	}
	rapid.Check(t, func(rt *rapid.T) {
		q := list + rapid.SampledFrom(expressions).Draw(rt, "expression") + ` AS r) WHERE ?1 IS ?1 AND ?2 IS ?2 AND ?3 IS ?3`
		args := []any{value.Draw(rt, "1"), value.Draw(rt, "2"), value.Draw(rt, "3")}
		want, wantErr := wants(plain, q, args)
		got, gotErr := gets(c, q, args)
		if got != want || (gotErr == nil) != (wantErr == nil) {
			rt.Fatalf("%s of %q: got %s, %v, the engine's own says %s, %v", q, args, got, gotErr, want, wantErr)
		}
		if gotErr != nil && !strings.Contains(wantErr.Error(), gotErr.Error()) {
			rt.Fatalf("%s of %q: got %v, the engine's own says %v", q, args, gotErr, wantErr)
		}
	})
}

func wants(db *sql.DB, q string, args []any) (string, error) {
	var quoted, kind string
	var length sql.NullString
	err := db.QueryRow(q, args...).Scan(&quoted, &kind, &length)
	return quoted + kind + length.String, err
}

func gets(c *sqlite.Conn, q string, args []any) (string, error) {
	in := dbaas.Statement{SQL: q}
	for _, a := range args {
		v := dbaas.Null()
		switch a := a.(type) {
		case int64:
			v = dbaas.Integer(a)
		case float64:
			v = dbaas.Float(a)
		case string:
			v = dbaas.Text(a)
		case []byte:
			v = dbaas.Blob(a)
		}
		in.Args = append(in.Args, v)
	}
	s, err := c.Prepare(q, replication.ReadGuard)
	if err != nil {
		return "", err
	}
	r, err := s.Run(&in, 1<<20)
	if err != nil || len(r.Rows) != 1 {
		return "", err
	}
	length := r.Rows[0][2]
	text := length.Text
	if length.Kind == dbaas.KindInteger {
		text = strconv.FormatInt(length.Int, 10)
	}
	return r.Rows[0][0].Text + r.Rows[0][1].Text + text, nil
}

// An index does the work of LIKE and GLOB, as with the engine's own.
func TestFunctions_LikeUsesIndexes(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE x(id INTEGER PRIMARY KEY, a TEXT, b TEXT COLLATE NOCASE)", "CREATE INDEX xa ON x(a)", "CREATE INDEX xb ON x(b)")
	for where, want := range map[string]string{
		"a GLOB 'ann*'":             "SEARCH x USING COVERING INDEX xa (a>? AND a<?)",
		"b LIKE 'ann%'":             "SEARCH x USING COVERING INDEX xb (b>? AND b<?)",
		"b LIKE 'an!%%' ESCAPE '!'": "SEARCH x USING COVERING INDEX xb (b>? AND b<?)",
		"a LIKE 'ann%'":             "SCAN x USING COVERING INDEX xa",
	} {
		var got []string
		column := where[:1]
		if err := c.Query("EXPLAIN QUERY PLAN SELECT "+column+" FROM x WHERE "+where, func(r sqlite.Row) error {
			got = append(got, r.Text(3))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %s", where, got, want)
		}
	}
}

// A schema may use the functions wherever it may use the engine's own, and another program reads the file.
func TestFunctions_InSchemas(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{Triggers: true})
	for _, q := range []string{
		"CREATE TABLE x(id INTEGER PRIMARY KEY, a TEXT CHECK(a LIKE '%a%'), b TEXT AS (replace(a,'a','b')) STORED, c TEXT AS (trim(a,'x')))",
		"CREATE INDEX xi ON x(instr(a,'b')) WHERE a GLOB '*a*'", "INSERT INTO x(a) VALUES('xax'),('bab')",
	} {
		if _, err := runAll(c, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	plain, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23", " ", "%20").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	var check, b, trimmed string
	if err = plain.QueryRow("SELECT (SELECT integrity_check FROM pragma_integrity_check), b, c FROM x WHERE id=1").Scan(&check, &b, &trimmed); err != nil || check+b+trimmed != "okxbxa" {
		t.Errorf("got %s, %s, %s, %v", check, b, trimmed, err)
	}
}
