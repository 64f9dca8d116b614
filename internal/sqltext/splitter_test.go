package sqltext_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"rideshare/internal/sqltext"
)

// split returns the statements of a text as "LINE:SQL", and what is left without a semicolon after "rest".
func split(text string) (got []string, pending bool) {
	var s sqltext.Splitter
	for i, line := range strings.SplitAfter(text, "\n") {
		for st := range s.Feed(line, i+1) {
			got = append(got, string(rune('0'+st.Line))+":"+st.SQL)
		}
	}
	if st, ok := s.Rest(); ok {
		got = append(got, "rest "+string(rune('0'+st.Line))+":"+st.SQL)
	}
	return got, s.Pending()
}

func TestSplitter_Feed(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"two on a line":              {"SELECT 1; SELECT 2;\n", []string{"1:SELECT 1", "1:SELECT 2"}},
		"over lines":                 {"\nSELECT\n1\n;\n", []string{"2:SELECT\n1"}},
		"without semicolon":          {"SELECT 1;\nSELECT 2\n", []string{"1:SELECT 1", "rest 2:SELECT 2"}},
		"blanks and semicolons":      {" ;;\n\t; \n", nil},
		"comments alone":             {"-- a; b\n/* c;\n d; */\n;", nil},
		"quotes":                     {"SELECT ';', \";\", `;`, [;], 'it''s;';\n", []string{"1:SELECT ';', \";\", `;`, [;], 'it''s;'"}},
		"quote over lines":           {"SELECT 'a;\nb;';SELECT 2;\n", []string{"1:SELECT 'a;\nb;'", "2:SELECT 2"}},
		"comment in a statement":     {"SELECT 1 -- one;\n, /* two; */ 2;\n", []string{"1:SELECT 1 -- one;\n, /* two; */ 2"}},
		"comment before":             {"/* a;\n b */ SELECT 1;\n", []string{"2:SELECT 1"}},
		"comment line before":        {"-- a\nSELECT 1;\n", []string{"2:SELECT 1"}},
		"no comment":                 {"SELECT 4 - -1 / 2;\n", []string{"1:SELECT 4 - -1 / 2"}},
		"slash of a comment":         {"/*/ SELECT 1; */ SELECT 2;\n", []string{"1:SELECT 2"}},
		"trigger":                    {"CREATE TRIGGER x AFTER INSERT ON t BEGIN\n DELETE FROM u;\n SELECT CASE 1 WHEN 1 THEN 2 END;\nEND;\nSELECT 1;\n", []string{"1:CREATE TRIGGER x AFTER INSERT ON t BEGIN\n DELETE FROM u;\n SELECT CASE 1 WHEN 1 THEN 2 END;\nEND", "5:SELECT 1"}},
		"temporary trigger":          {"create temp trigger x after insert on t begin select 1; end; select 2;", []string{"1:create temp trigger x after insert on t begin select 1; end", "1:select 2"}},
		"explained trigger":          {"EXPLAIN QUERY PLAN CREATE TRIGGER x BEGIN SELECT 1; END;", []string{"1:EXPLAIN QUERY PLAN CREATE TRIGGER x BEGIN SELECT 1; END"}},
		"table named like a trigger": {`CREATE TABLE "TRIGGER" (a); SELECT 1;`, []string{`1:CREATE TABLE "TRIGGER" (a)`, "1:SELECT 1"}},
		"END as a statement":         {"END; SELECT 1;", []string{"1:END", "1:SELECT 1"}},
		"open quote":                 {"SELECT 'a;\n", []string{"rest 1:SELECT 'a;\n"}},
		"Unicode":                    {"SELECT 'ä;'; SELECT ß;", []string{"1:SELECT 'ä;'", "1:SELECT ß"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := split(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("split(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// A text is pending exactly when SQLite calls it incomplete, and no character of a statement is lost.
func FuzzSplitter(f *testing.F) {
	f.Add("SELECT ';' -- ;\n, [;] ; /* ; */ create temporary trigger a begin select 1;; end; explain")
	f.Add("/*/ ; */ 'it''s' \"\n\" ` - / $ END;TRIGGER\f\r\t;")
	f.Add("create trigger x;end a;end;")
	f.Add("create trigger x begin select 1;;")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			return // the end of the text for SQLite
		}
		text = ";" + text + "\n"
		tls := libc.NewTLS()
		defer tls.Close()
		c, err := libc.CString(text)
		if err != nil {
			t.Fatal(err)
		}
		defer libc.Xfree(tls, c)
		complete := sqlite3.Xsqlite3_complete(tls, c) != 0
		got, pending := split(text)
		if pending == complete {
			t.Errorf("%q: got pending %v, want %v", text, pending, !complete)
		}
		for _, st := range got {
			if _, sql, _ := strings.Cut(st, ":"); !strings.Contains(text, sql) {
				t.Errorf("%q: got %q, which is not in it", text, sql)
			}
		}
	})
}
