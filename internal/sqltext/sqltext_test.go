package sqltext_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/sqltext"
)

// Only a semicolon outside of quotes, comments and trigger bodies ends a statement.
func TestStatements(t *testing.T) {
	t.Parallel()
	body := "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; DELETE FROM t; END"
	for text, want := range map[string][]string{
		"":                      nil,
		" ; -- a;\n /* b; */ ;": nil,
		"SELECT 1":              {"SELECT 1"},
		" /* x */ SELECT 1 -- y\n ; SELECT 2 /* z; */": {"SELECT 1", "SELECT 2"},
		`SELECT ';', ";", [;], ` + "`;`; x":            {`SELECT ';', ";", [;], ` + "`;`", "x"},
		"SELECT 'it''s;';x":                            {"SELECT 'it''s;'", "x"},
		"SELECT 'open; x":                              {"SELECT 'open; x"},
		"SELECT 1 /* open; x":                          {"SELECT 1"},
		body + ";SELECT 1;":                            {body, "SELECT 1"},
		"EXPLAIN QUERY PLAN " + body + ";x":            {"EXPLAIN QUERY PLAN " + body, "x"},
		"create table trigger_(end);x":                 {"create table trigger_(end)", "x"},
		"BEGIN;END;":                                   {"BEGIN", "END"},
		"SELECT 1;\x00;x":                              {"SELECT 1", "\x00", "x"},
	} {
		if got := slices.Collect(sqltext.Statements(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %s", text, cmp.Diff(want, got))
		}
	}
}

// A comment at the end of a statement does not swallow the semicolon behind it.
func TestTerminated(t *testing.T) {
	t.Parallel()
	trigger := "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END"
	for text, want := range map[string]string{
		"":                                  "",
		" -- a":                             "",
		"CREATE TABLE t(a)":                 "CREATE TABLE t(a);",
		"CREATE TABLE t(a /* b */)":         "CREATE TABLE t(a /* b */);",
		"CREATE TABLE t(a) STRICT /* x":     "CREATE TABLE t(a) STRICT;",
		"CREATE TABLE t(a) STRICT /* x */ ": "CREATE TABLE t(a) STRICT;",
		"CREATE VIEW v AS SELECT '--' -- x": "CREATE VIEW v AS SELECT '--';",
		trigger:                             trigger + ";",
	} {
		if got := sqltext.Terminated(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"SELECT a.b,:c FROM t;":   {"SELECT", "a", ".", "b", ",", ":", "c", "FROM", "t", ";"},
		`a "LIMIT" [LIMIT] b`:     {"a", "b"},
		"a `LIMIT` 'it''s LIMIT'": {"a"},
		"a -- LIMIT\nb /* LIMIT":  {"a", "b"},
	} {
		if got := slices.Collect(sqltext.Words(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %s", text, cmp.Diff(want, got))
		}
	}
}

// Whatever the text, nothing but semicolons, blanks and comments is left out.
func FuzzStatements(f *testing.F) {
	f.Add("CREATE TRIGGER a BEGIN x; END; SELECT ';' -- c\n;/* */")
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for s := range sqltext.Statements(text) {
			i := strings.Index(text[at:], s)
			if s == "" || i < 0 {
				t.Fatalf("%q: statement %q is not behind byte %d", text, s, at)
			}
			at += i + len(s)
		}
	})
}
