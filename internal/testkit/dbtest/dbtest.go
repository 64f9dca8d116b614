// Package dbtest is a stand-in for the orchestrator in tests: the part of its
// HTTP API that dbclient uses, on a real SQLite file, with faults on demand.
//
// The test that uses it imports a database/sql driver named "sqlite" itself.
package dbtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rideschema"
)

// Seen is one request that the stand-in received.
type Seen struct {
	Path   string // with the query
	Header http.Header
	Body   string
}

// DB is the stand-in. It serves one request at a time.
type DB struct {
	// URL is its base URL.
	URL string
	// Server is its listener; closing it simulates a dead orchestrator.
	Server *httptest.Server

	mu      sync.Mutex // guards the fields below
	db      *sql.DB
	seq     uint64
	answers map[dbaas.OpID]stored
	seen    []Seen
	fault   func(path string) Fault
}

type stored struct {
	fingerprint [32]byte
	seq         uint64
	body        []byte
}

// Fault is what fails in a request.
type Fault int

// The faults.
const (
	None       Fault = iota
	Refuse           // 503, nothing done
	LoseAnswer       // done, and the connection is cut
	Lose             // not done, and the connection is cut
	Vague            // 504 after it was done
)

// Refusal answers with an error as the orchestrator does, but without Retry-After, so that tests do not take long.
func Refusal(w http.ResponseWriter, r *http.Request, code dbaas.Code) {
	httpapi.WriteError(hasty{w}, r, false, dbaas.Errorf(code, "refused"))
}

type hasty struct{ http.ResponseWriter }

func (h hasty) WriteHeader(status int) {
	h.Header().Del("Retry-After")
	h.ResponseWriter.WriteHeader(status)
}

// New starts a stand-in with an empty database. It ends with the test.
func New(tb testing.TB) *DB {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "orchestrator.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)&_pragma=synchronous(0)")
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(tb.Context(), strings.Join(rideschema.Create(), ";")); err != nil {
		tb.Fatal(err)
	}
	d := &DB{db: db, answers: map[dbaas.OpID]stored{}}
	d.Server = httptest.NewServer(d)
	d.URL = d.Server.URL
	tb.Cleanup(func() {
		d.Server.Close()
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// SetFault makes later requests fail as fault returns for their path; nil ends that.
func (d *DB) SetFault(fault func(path string) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// Seen returns the requests so far.
func (d *DB) Seen() []Seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Seen(nil), d.seen...)
}

// Exec runs a statement, bypassing the API.
func (d *DB) Exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.db.ExecContext(context.Background(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// Text returns the single value of a query, bypassing the API; "" if there is no row.
func (d *DB) Text(tb testing.TB, query string, args ...any) string {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var out sql.NullString
	err := d.db.QueryRowContext(context.Background(), query, args...).Scan(&out)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		tb.Fatal(err)
	}
	return out.String
}

// ServeHTTP answers as the orchestrator does.
func (d *DB) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, Seen{Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: string(body)})
	fault := None
	if d.fault != nil {
		fault = d.fault(r.URL.Path)
	}
	switch fault {
	case Refuse:
		Refusal(w, r, dbaas.CodeUnavailable)
		return
	case Lose:
		panic(http.ErrAbortHandler)
	case None, LoseAnswer, Vague:
	}
	seq, answer, err := d.answer(r, body)
	switch fault {
	case LoseAnswer:
		panic(http.ErrAbortHandler)
	case Vague:
		err = &dbaas.Error{Code: dbaas.CodeUnknown, Message: "no reply", Op: opID(r)}
	case None, Refuse, Lose:
	}
	if err != nil {
		httpapi.WriteError(w, r, false, err)
		return
	}
	w.Header().Set(httpapi.HeaderSeq, strconv.FormatUint(seq, 10))
	_, _ = w.Write(answer)
}

// opID is the id of a request's operation, as the orchestrator derives it. dbclient sends a key with each write.
func opID(r *http.Request) dbaas.OpID {
	caller := httpapi.CallerOf(r.Header.Get("Authorization"))
	scope := httpapi.KeyScope{Service: httpapi.Orchestrator, Caller: caller, Method: r.Method, Path: r.URL.Path}
	return scope.OpID(r.Header.Get(httpapi.HeaderIdempotencyKey))
}

// answer runs one request, or returns the earlier answer for its key.
func (d *DB) answer(r *http.Request, body []byte) (uint64, []byte, error) {
	var minSeq uint64
	if text := r.Header.Get(httpapi.HeaderMinSeq); text != "" {
		minSeq, _ = strconv.ParseUint(text, 10, 64)
	}
	if minSeq > d.seq {
		return 0, nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "not caught up")
	}
	switch r.URL.Path {
	case "/readyz":
		return d.seq, []byte("{}"), nil
	case "/db/query":
		out, err := d.run(r.Context(), body)
		return d.seq, out, err
	case "/db/execute", "/db/request", "/api/v1/db/clear":
	default:
		return 0, nil, dbaas.Errorf(dbaas.CodeNotFound, "no such path")
	}
	id, fingerprint := opID(r), sha256.Sum256(body)
	if old, ok := d.answers[id]; ok {
		if old.fingerprint != fingerprint {
			return 0, nil, dbaas.Errorf(dbaas.CodeMismatch, "the key was used for another operation")
		}
		return old.seq, old.body, nil
	}
	if r.URL.Path == "/api/v1/db/clear" {
		var statements [][]string
		for _, s := range rideschema.Clear() {
			statements = append(statements, []string{s.SQL})
		}
		var err error
		if body, err = json.Marshal(statements); err != nil {
			return 0, nil, err
		}
	}
	out, err := d.run(r.Context(), body)
	if err != nil {
		return 0, nil, err
	}
	d.seq++
	d.answers[id] = stored{fingerprint: fingerprint, seq: d.seq, body: out}
	return d.seq, out, nil
}

// run executes the statements in one transaction; a failing statement rolls all back.
func (d *DB) run(ctx context.Context, body []byte) ([]byte, error) {
	var stmts [][]any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&stmts); err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInvalid, "statements", err)
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // After Commit it does nothing.
	results := []any{}
	for _, s := range stmts {
		result, err := runOne(ctx, tx, s)
		if err != nil {
			results = append(results, map[string]any{"error": sqliteWords(err)})
			return json.Marshal(map[string]any{"results": results})
		}
		results = append(results, result)
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"results": results})
}

// sqliteWords removes what the driver adds: "constraint failed: UNIQUE constraint failed: t.c (1555)".
func sqliteWords(err error) string {
	text := strings.TrimPrefix(err.Error(), "constraint failed: ")
	if i := strings.LastIndex(text, " ("); i > 0 {
		text = text[:i]
	}
	return text
}
