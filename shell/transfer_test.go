package shell

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A backup is the whole answer or nothing: not half of it, and not in the place of another backup.
func TestBackup_WholeOrNothing(t *testing.T) {
	s := newServer(t)
	var queries []string
	cut := false
	s.other = func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Path+"?"+r.URL.RawQuery)
		_, _ = io.WriteString(w, "half")
		if cut {
			_ = http.NewResponseController(w).Flush() // the stand-in's own connection.
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, " and half")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "b.db")
	s.run(t, ".backup "+file).done(t, "")
	s.run(t, ".dump "+filepath.Join(dir, "d.sql")+" a,b\n.dump "+filepath.Join(dir, "e.sql")).done(t, "")
	if diff := cmp.Diff([]string{"/db/backup?", "/db/backup?fmt=sql&tables=a%2Cb", "/db/backup?fmt=sql"}, queries); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	cut = true
	write(t, file, "the old backup")
	s.run(t, ".backup "+file).failed(t, "is not written: ")
	s.run(t, ".backup "+filepath.Join(dir, "new.db")).failed(t, "is not written: ")
	s.run(t, ".backup "+dir).failed(t, "is not a regular file")
	s.run(t, ".backup "+filepath.Join(dir, "none", "b.db")).failed(t, "no such file")
	if text := content(t, file); text != "the old backup" {
		t.Errorf("after a cut answer: got %q, want the old backup", text)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	hidden, hiddenErr := filepath.Glob(filepath.Join(dir, ".*"))
	if err = errors.Join(err, hiddenErr); err != nil || len(names) != 3 || len(hidden) != 0 {
		t.Errorf("got files %v %v, %v; want b.db, d.sql, e.sql", names, hidden, err)
	}
}

func TestLoad(t *testing.T) {
	s := newServer(t)
	var got []string
	answer, status := `{"results":[{"rows_affected":1}]}`, http.StatusOK
	s.other = func(w http.ResponseWriter, r *http.Request) {
		text := "not read"
		if status == http.StatusOK {
			body, _ := io.ReadAll(r.Body) // its length is compared.
			text = fmt.Sprint(len(body))
		}
		got = append(got, r.Method+" "+r.URL.Path+" "+text+" "+r.Header.Get("Expect"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}
	file := filepath.Join(t.TempDir(), "big.sql")
	write(t, file, strings.Repeat("-- a long file\n", 1<<20))
	s.run(t, ".load "+file).done(t, "")
	answer = `{"results":[{"error":"it fails"}]}`
	s.run(t, ".load "+file).failed(t, "it fails")
	answer, status = `{"detail":"too large, see rideshare restore","code":"too_large"}`, http.StatusRequestEntityTooLarge
	s.run(t, ".load "+file).failed(t, "too large, see rideshare restore (HTTP 413)")
	s.run(t, ".load "+file+"x").failed(t, "no such file")
	s.run(t, ".load "+filepath.Dir(file)).failed(t, "is not a regular file")
	read := fmt.Sprintf("POST /db/load %d 100-continue", 15<<20)
	if diff := cmp.Diff([]string{read, read, "POST /db/load not read 100-continue"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
