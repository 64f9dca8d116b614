package orchestratorapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
)

// The options decide what persdb is asked for; what is not supported never reaches it.
func TestBackup_Options(t *testing.T) {
	var asked []dbaas.BackupForm
	s := &system{backup: func(form dbaas.BackupForm) (*dbaas.Backup, error) {
		asked = append(asked, form)
		return &dbaas.Backup{Head: dbaas.Head{Seq: 7, Cluster: dbaas.ClusterID{1}}, Body: io.NopCloser(strings.NewReader("body"))}, nil
	}}
	h := newAPI(s)
	for query, kind := range map[string]string{
		"": "application/octet-stream", "?fmt=binary": "application/octet-stream", "?fmt=delete&redirect&noleader": "application/octet-stream",
		"?fmt=sql": "application/sql", "?fmt=sql&tables=a,b": "application/sql",
	} {
		asked = nil
		w := call(t, h, "GET", "/db/backup"+query, "")
		want(t, w, http.StatusOK, "body")
		got := w.Header()
		if got.Get("Content-Type") != kind || got.Get("X-Seq") != "7" || got.Get("X-Cluster-Id") != (dbaas.ClusterID{1}).String() {
			t.Errorf("%s: got %v", query, got)
		}
		if tables := strings.Join(asked[0].Tables, "|"); asked[0].SQL != strings.Contains(query, "sql") || (tables == "a|b") != strings.Contains(query, "tables") {
			t.Errorf("%s: asked for %+v", query, asked)
		}
	}
	asked = nil
	for _, query := range []string{"fmt=xml", "fmt=", "fmt=sql&fmt=sql", "vacuum", "tables=a", "fmt=delete&tables=a", "x=1", "%zz"} {
		want(t, call(t, h, "GET", "/db/backup?"+query, ""), http.StatusBadRequest, "")
	}
	if asked != nil {
		t.Errorf("persdb was asked for %+v", asked)
	}
	w := call(t, h, "GET", "/db/backup?compress&fmt=sql", "")
	zip, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(zip); err != nil || string(body) != "body" || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("got %q, %v, %v", body, err, w.Header())
	}
}

// A backup that persdb cannot complete is cut, so that the client does not take it for whole.
func TestBackup_FailureCutsTheConnection(t *testing.T) {
	s := &system{backup: func(dbaas.BackupForm) (*dbaas.Backup, error) {
		body := io.MultiReader(bytes.NewReader(make([]byte, 300<<10)), brokenReader{})
		return &dbaas.Backup{Body: io.NopCloser(body)}, nil
	}}
	web := httptest.NewServer(newAPI(s))
	defer web.Close()
	for _, query := range []string{"", "?compress"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/db/backup"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue // cut before the first byte was sent
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%q: got %d bytes without an error", query, n)
		}
		_ = resp.Body.Close()
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk failed") }

// SQL text and a file become one operation each; the answer is that of its only result.
func TestLoad_BecomesOneOperation(t *testing.T) {
	outcome := []dbaas.StatementResult{{LastInsertID: 3, RowsAffected: 1}}
	s := &system{
		write: func(op dbaas.Operation) (dbaas.OperationResult, error) {
			return dbaas.OperationResult{ID: op.ID, Seq: 43, Statements: outcome}, nil
		},
		fileSQL: func(file []byte) ([]byte, error) { return []byte("text of " + string(file[16:])), nil },
	}
	h := newAPI(s)
	const file = "SQLite format 3\x00file"
	w := call(t, h, "POST", "/db/load", "CREATE TABLE a(b);")
	want(t, w, http.StatusOK, `{"results":[{"last_insert_id":3,"rows_affected":1}],"seq":43}`)
	op := s.lastOp(t)
	if limit := op.Deadline.Sub(epochStart); op.Load != dbaas.LoadText || op.Statements[0].SQL != "CREATE TABLE a(b);" || limit.String() != "35s" {
		t.Errorf("got %+v", op)
	}
	want(t, call(t, h, "POST", "/db/load", file), http.StatusOK, `{"results":[],"seq":43}`)
	if op = s.lastOp(t); op.Load != dbaas.LoadReplace || op.Statements[0].SQL != "text of file" {
		t.Errorf("got %+v", op)
	}
	outcome = []dbaas.StatementResult{{Code: dbaas.CodeInvalid, Message: "no"}}
	want(t, call(t, h, "POST", "/db/load", file), http.StatusOK, `{"results":[{"error":"no"}],"seq":43}`)
	want(t, call(t, h, "POST", "/db/load", " x"), http.StatusOK, `{"results":[{"error":"no"}],"seq":43}`)
}

// What cannot be a load is refused before an operation is made.
func TestLoad_Refusals(t *testing.T) {
	s := &system{fileSQL: func([]byte) ([]byte, error) {
		return nil, dbaas.Errorf(dbaas.CodeInvalid, "the file is damaged: x")
	}}
	h := newAPI(s)
	want(t, call(t, h, "POST", "/db/load", " \n"), http.StatusBadRequest, "")
	want(t, call(t, h, "POST", "/db/load?queue", "SELECT 1"), http.StatusBadRequest, "")
	want(t, call(t, h, "POST", "/db/load", "SQLite format 3\x00"), http.StatusBadRequest, "")
	w := call(t, h, "POST", "/db/load", strings.Repeat(" ", 64<<20)+"x")
	if want(t, w, http.StatusRequestEntityTooLarge, ""); !strings.Contains(w.Body.String(), "rideshare restore") {
		t.Errorf("got %s", w.Body)
	}
	if len(s.ops) > 0 {
		t.Errorf("got %d operations, want none", len(s.ops))
	}
}

var _ orchestratorapi.Store = (*system)(nil)
