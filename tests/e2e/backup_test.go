package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
)

// fill runs a random script. Statements that fail are part of it.
func (s *system) fill(t *testing.T, seed uint64) {
	t.Helper()
	for _, b := range sqlgen.Make(seed).Batches {
		for i := range b.Operations {
			var body []any
			for _, st := range b.Operations[i].SQL() {
				body = append(body, parameterized(st))
			}
			s.Post(t, s.db("/db/execute"), toJSON(body))
		}
	}
}

// parameterized returns a statement of the SQL form. Values that JSON cannot carry are left out.
func parameterized(st dbaas.Statement) []any {
	out := []any{st.SQL}
	for _, v := range st.Args {
		switch {
		case v.Kind == dbaas.KindInteger:
			out = append(out, v.Int)
		case v.Kind == dbaas.KindFloat && !math.IsInf(v.Float, 0):
			out = append(out, v.Float)
		case v.Kind == dbaas.KindText:
			out = append(out, v.Text)
		case v.Kind == dbaas.KindBlob:
			list := make([]int, len(v.Blob))
			for i, b := range v.Blob {
				list[i] = int(b)
			}
			out = append(out, list)
		default:
			out = append(out, nil)
		}
	}
	return out
}

// loads loads a body that must take effect.
func (s *system) loads(t *testing.T, body string) {
	t.Helper()
	a := s.Post(t, s.db("/db/load"), body).expect(t, http.StatusOK, anyBody)
	if strings.Contains(a.Body, `"error"`) {
		t.Fatalf("load: got %s", a.Body)
	}
}

// dump returns the SQL text of the whole database.
func (s *system) dump(t *testing.T) string {
	t.Helper()
	return s.Get(t, s.db("/db/backup?fmt=sql")).expect(t, http.StatusOK, anyBody).Body
}

// counts matches the numbers of requests in a dump. The services may write them at any time.
var counts = regexp.MustCompile(`INSERT INTO "apicount" VALUES\([^)]*\);\n`)

// openBackup opens a backup file with another driver than the product's.
func openBackup(t *testing.T, file string) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.db")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // opened to read.
	return db
}

func ask(t *testing.T, db *sql.DB, query string) (value string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// A backup of random tables, as text and as a file, loads into a fresh system and gives the same
// database there, down to the row ids; the replicas follow.
func TestBackup_RandomTables_LoadIntoAFreshSystem(t *testing.T) {
	from := start(t, setup{owned: true})
	for seed := range uint64(6) {
		from.fill(t, seed)
	}
	text := from.dump(t)
	file := from.Get(t, from.db("/db/backup"))
	eventually(t, againLimit, func() error { // the head is the last known one
		if head := from.Get(t, from.db("/api/v1/cluster")); !strings.Contains(head.Body, `"head_seq":`+file.Header.Get("X-Seq")+",") {
			return fmt.Errorf("X-Seq is %s at %s", file.Header.Get("X-Seq"), head.Body)
		}
		return nil
	})
	db := openBackup(t, file.Body)
	for query, want := range map[string]string{
		"PRAGMA integrity_check": "ok", "PRAGMA journal_mode": "delete",
		"SELECT count(*) FROM sqlite_master WHERE name LIKE 'rs!_%' ESCAPE '!'": "0",
	} {
		if got := ask(t, db, query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	for name, body := range map[string]string{"Text": text, "File": file.Body} {
		t.Run(name, func(t *testing.T) {
			to := start(t, setup{owned: true})
			if name == "File" { // a file can replace only empty tables.
				to.Exec(t, "CREATE TABLE old(a)")
			}
			to.loads(t, body)
			if d := cmp.Diff(text, to.dump(t)); d != "" {
				t.Errorf("the database differs (-backup +loaded):\n%s", d)
			}
			if report := to.Post(t, to.db("/api/v1/check"), "").expect(t, http.StatusOK, anyBody).Body; strings.Contains(report, `"ok":false`) {
				t.Errorf("check: %s", report)
			}
		})
	}
}

// A backup that is made while writes go on has exactly the writes up to its position.
func TestBackup_DuringWrites_IsThePositionThatItNames(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "seq INTEGER PRIMARY KEY, n")
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan []uint64)
	go func() {
		var seqs []uint64
		for ctx.Err() == nil {
			a, err := sys.Try(context.WithoutCancel(ctx), "POST", sys.db("/db/execute"), sqlBody("INSERT INTO "+table+"(n) VALUES(1)"))
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("write: %v, %+v", err, a)
				break
			}
			seq, _ := strconv.ParseUint(a.Header.Get("X-Seq"), 10, 64)
			seqs = append(seqs, seq)
		}
		written <- seqs
	}()
	var backups []answer
	for range 5 {
		backups = append(backups, sys.Get(t, sys.db("/db/backup")).expect(t, http.StatusOK, anyBody))
	}
	stop()
	seqs := <-written
	for _, b := range backups {
		at, want := b.Header.Get("X-Seq"), 0
		for _, seq := range seqs {
			if limit, _ := strconv.ParseUint(at, 10, 64); seq <= limit {
				want++
			}
		}
		if got := ask(t, openBackup(t, b.Body), "SELECT count(*) FROM "+table); got != strconv.Itoa(want) {
			t.Errorf("rows in the backup at %s: got %s, want %d", at, got, want)
		}
	}
}

// The forms of a backup, and what is refused.
func TestBackup_EachForm(t *testing.T) {
	sys := shared(t)
	table, other := sys.NewTable(t, "a INTEGER PRIMARY KEY, b TEXT"), sys.NewTable(t, "a")
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1, 'it''s')")
	want := fmt.Sprintf("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE %[1]s(a INTEGER PRIMARY KEY, b TEXT);\nINSERT INTO \"%[1]s\" VALUES(1,'it''s');\nCREATE TABLE %[2]s(a);\nCOMMIT;\n", table, other)
	path := "/db/backup?fmt=sql&tables=" + strings.ToUpper(table) + "," + other
	a := sys.Get(t, sys.db(path))
	if a.Body != want || a.Header.Get("Content-Type") != "application/sql" {
		t.Errorf("got %v %s, want %s", a.Header, a.Body, want)
	}
	zipped, err := gzip.NewReader(strings.NewReader(sys.Get(t, sys.db(path+"&compress")).Body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(zipped); err != nil || string(text) != want {
		t.Errorf("compressed: got %s, %v", text, err)
	}
	for _, query := range []string{"fmt=sql&tables=nope", "fmt=sql&tables=rs_log", "fmt=sql&tables=", "tables=" + table, "fmt=csv", "vacuum"} {
		sys.Get(t, sys.db("/db/backup?"+query)).expect(t, http.StatusBadRequest, anyBody)
	}
}

// A load that fails changes nothing, and says why.
func TestLoad_Fails_LeavesNothing(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "a INTEGER PRIMARY KEY")
	before := counts.ReplaceAllString(sys.dump(t), "")
	load := func(body string) answer { return sys.Post(t, sys.db("/db/load"), body) }
	results := func(body, want string) {
		t.Helper()
		var got struct{ Results json.RawMessage }
		a := load(body).expect(t, http.StatusOK, anyBody)
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || string(got.Results) != want {
			t.Errorf("got %s, want %s", a.Body, want)
		}
	}
	results("BEGIN; INSERT INTO "+table+" VALUES(1); INSERT INTO "+table+" VALUES(1); COMMIT;", `[{"error":"UNIQUE constraint failed: `+table+`.a"}]`)
	results("CREATE TABLE child(p REFERENCES "+table+"); INSERT INTO child VALUES(7);", `[{"error":"FOREIGN KEY constraint failed"}]`)
	results("CREATE TABLE half(a); INSERT INTO half VALUES(1), (2", `[{"error":"incomplete input"}]`)
	file := sys.Get(t, sys.db("/db/backup")).Body
	load(file[:len(file)-5000]).expect(t, http.StatusBadRequest, anyBody)
	load(file[:100]+strings.Repeat("x", len(file)-100)).expect(t, http.StatusBadRequest, anyBody)
	load("").expect(t, http.StatusBadRequest, anyBody)
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1)")
	load(file).expect(t, http.StatusConflict, anyBody)
	sys.Exec(t, "DELETE FROM "+table)
	over := strings.Repeat("-", 64<<20+1)
	a := unbroken(t, func() (answer, error) { return sys.Try(t.Context(), http.MethodPost, sys.db("/db/load"), over) })
	if a.expect(t, http.StatusRequestEntityTooLarge, anyBody); !strings.Contains(a.Body, "rideshare restore") {
		t.Errorf("got %s", a.Body)
	}
	if d := cmp.Diff(before, counts.ReplaceAllString(sys.dump(t), "")); d != "" {
		t.Errorf("the loads left something (-before +after):\n%s", d)
	}
	results("INSERT INTO "+table+" VALUES(5),(6); COMMIT;", `[{"last_insert_id":6,"rows_affected":2}]`)
}

// A client that stops reading its backup keeps its slot, but neither writes nor other parts wait for it. Once the
// client is gone, the slot is free.
func TestBackup_ClientStopsReading_OthersGoOn(t *testing.T) {
	sys := start(t, setup{owned: true})
	table := sys.NewTable(t, "a")
	for range 15 { // A statement has two seconds (SQL_WRITE_TIME).
		sys.statement(t, "/db/execute?timeout=30s", "INSERT INTO "+table+" VALUES(zeroblob(2000000))")
	}
	var stalled []net.Conn
	for range 2 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(sys.Orchestrator, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // closed below unless the test failed.
		if _, err = io.WriteString(conn, "GET /db/backup HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 1000)
		if _, err = io.ReadFull(conn, head); err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
			t.Fatalf("got %q, %v", head, err)
		}
		stalled = append(stalled, conn)
	}
	if a := sys.Get(t, sys.db("/db/backup")).expect(t, http.StatusServiceUnavailable, anyBody); a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After in %v", a.Header)
	}
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1)")
	for _, conn := range stalled {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(callLimit); ; {
		a := sys.Get(t, sys.db("/db/backup"))
		if a.Status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the clients had gone: got %d %s", a.Status, a.Body)
		}
	}
	eventually(t, againLimit, func() error { // of the other client
		if left, err := filepath.Glob(filepath.Join(sys.dataDir(), "backups", "*")); err != nil || len(left) > 0 {
			return fmt.Errorf("files of backups: got %v, %w, want none", left, err)
		}
		return nil
	})
}
