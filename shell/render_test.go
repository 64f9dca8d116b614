package shell

import (
	"encoding/csv"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
)

var update = flag.Bool("update", false, "write the golden files")

// results are answers of the server, by the name of their golden files.
var results = map[string]string{
	"kinds": `{"columns":["id","text","blob"],"values":[[1,"a",[0,171,255]],[-2.5,null,[]],[true,"it's \"x\", <b>",null]]}`,
	"hostile": `{"columns":["c\u001b[31m","\u202ed"],"values":[["\u001b]0;title\u0007","two\nlines\ttab\r"],
		["` + "\u009b31m\u007f" + `","` + "\u2028\u2066" + `\u0000"]]}`,
	"wide":       `{"columns":["名前","emoji"],"values":[["東京都千代田区","👩‍👩‍👧 family"],["é","` + strings.Repeat("x", 60) + `"]]}`,
	"duplicates": `{"columns":["a","a"],"values":[[1,2]]}`,
	"no rows":    `{"columns":["a","bc"]}`,
	"columns":    `{"columns":["a","b","c","d","e","f","g","h"],"values":[["aaaaaaaa",2,3,"dddddddd",5,6,"gggggggg","hhhhhhhhh"]]}`,
}

func TestRender_Golden(t *testing.T) {
	views := map[string]view{
		"table": {mode: "table"}, "table40": {mode: "table", terminal: true, width: 40},
		"csv": {mode: "csv"}, "csvterminal": {mode: "csv", terminal: true, width: 40},
		"json": {mode: "json"}, "line": {mode: "line"},
	}
	for name, text := range results {
		var r result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		for viewed, v := range views {
			var got strings.Builder
			if err := render(&got, v, &r); err != nil {
				t.Errorf("%s %s: %v", name, viewed, err)
			}
			file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "")+"."+viewed)
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
			checkRendered(t, file, v, got.String())
		}
	}
}

// checkRendered checks what holds for any result: no control character, no line over the width, JSON that can be read.
func checkRendered(t *testing.T, file string, v view, got string) {
	t.Helper()
	if exact := v.mode == "csv" && !v.terminal; !exact && strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), unsafe) {
		t.Errorf("%s: got %q, want no control characters", file, got)
	}
	if v.mode == "json" && !json.Valid([]byte(got)) {
		t.Errorf("%s: got %s, want JSON", file, got)
	}
	for line := range strings.Lines(got) {
		if n := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); v.mode == "table" && v.width > 0 && n > v.width {
			t.Errorf("%s: a line of %d characters, want at most %d: %s", file, n, v.width, line)
		}
	}
}

// A reader of CSV gets as many records as there are rows, with the values of the rows. Only a text without a character is quoted for
// nothing: that tells it from NULL.
func TestRender_CSV_EachRowIsARecord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"columns":["a"],"values":[[null],[""],["x"]]}`:                                "a\n\"\"\n\"\"\nx\n",
		`{"columns":["a","b"],"values":[[null,""],["",null],[null,null],["\\."," x"]]}`: "a,b\n,\"\"\n\"\",\n,\n\"\\.\",\" x\"\n",
		`{"columns":[""],"values":[["a,b"],["\r\n"],["\"x"]]}`:                          "\"\"\n\"a,b\"\n\"\r\n\"\n\"\"\"x\"\n",
	} {
		var r result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := render(&got, view{mode: "csv"}, &r); err != nil || got.String() != want {
			t.Errorf("%s: got %q, %v, want %q", text, got.String(), err, want)
		}
		records, err := csv.NewReader(strings.NewReader(got.String())).ReadAll()
		if err != nil || len(records) != 1+len(r.Values) {
			t.Errorf("%s: got %q, %v, want %d records", text, records, err, 1+len(r.Values))
		}
	}
}

func TestRender_BrokenAnswer_Error(t *testing.T) {
	for _, text := range []string{
		`{"columns":["a"],"values":[[1,2]]}`, `{"columns":["a"],"values":[[[256]]]}`, `{"columns":["a"],"values":[[["x"]]]}`,
	} {
		var r result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		for _, mode := range Modes {
			var got strings.Builder
			if err := render(&got, view{mode: mode}, &r); err == nil {
				t.Errorf("%s as %s: got %q, want an error", text, mode, got.String())
			}
		}
	}
}
