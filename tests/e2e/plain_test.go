package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/sqlgen"
)

// plain is SQLite without any code of this system. Its answers are right by definition.
type plain struct{ conn *sqlite.Conn }

// openPlain returns a database in memory with the application's tables and the settings of persdb.
func openPlain(t *testing.T) plain {
	t.Helper()
	conn, err := sqlite.OpenConn(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err = conn.SetDefensive(true); err != nil {
		t.Fatal(err)
	}
	for _, sql := range append(rideschema.Create(), "PRAGMA foreign_keys=ON") {
		if err = sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return plain{conn}
}

// plainResult is what one statement gave.
type plainResult struct {
	columns []string // "" for the first of several with the same name, which the library does not return
	rows    [][]any  // nil, int64, float64, string, []byte
	// affected and lastID are -1 if they cannot be predicted from outside SQLite.
	affected, lastID int64
	err              error
}

// run runs the statements as the system promises: each by itself, or all as one transaction, which ends at the first
// failure. A statement for which refused returns an error does not run and has that error.
func (p plain) run(statements []sqlgen.Statement, atomic bool, refused func(i int) error) []plainResult {
	var results []plainResult
	if !atomic {
		for i := range statements {
			results = append(results, p.run(statements[i:i+1], true, func(int) error { return refused(i) })...)
		}
		return results
	}
	p.control("BEGIN")
	for i := range statements {
		r := plainResult{err: refused(i)}
		if r.err == nil {
			r = p.one(&statements[i])
		}
		results = append(results, r)
		if r.err != nil {
			p.undo()
			return results
		}
	}
	if err := sqlitex.ExecuteTransient(p.conn, "COMMIT", nil); err != nil {
		results[len(results)-1].err = err
		p.undo()
	}
	return results
}

// undo rolls the transaction back, unless the statement has ended it.
func (p plain) undo() {
	if !p.conn.AutocommitEnabled() {
		p.control("ROLLBACK")
	}
}

func (p plain) control(sql string) {
	if err := sqlitex.ExecuteTransient(p.conn, sql, nil); err != nil {
		panic(fmt.Sprintf("%s: %v", sql, err))
	}
}

func (p plain) one(in *sqlgen.Statement) plainResult {
	r := plainResult{affected: -1, lastID: -1}
	before := p.conn.LastInsertRowID()
	stmt, _, err := p.conn.PrepareTransient(in.SQL)
	if err != nil {
		r.err = err
		return r
	}
	defer func() { _ = stmt.Finalize() }()
	bindPlain(stmt, in)
	for i := range stmt.ColumnCount() {
		r.columns = append(r.columns, stmt.ColumnName(i))
	}
	for {
		more, err := stmt.Step()
		if err != nil {
			r.err = err
			return r
		}
		if !more {
			break
		}
		row := make([]any, len(r.columns))
		for i := range row {
			row[i] = plainValue(stmt, i)
		}
		r.rows = append(r.rows, row)
	}
	verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(in.SQL)), " ")
	if in.Kind == sqlgen.Rows && slices.Contains([]string{"INSERT", "REPLACE", "UPDATE", "DELETE"}, verb) {
		r.affected = int64(p.conn.Changes())
	}
	if after := p.conn.LastInsertRowID(); after != before && r.affected > 0 {
		r.lastID = after
	}
	return r
}

func bindPlain(stmt *sqlite.Stmt, in *sqlgen.Statement) {
	for i := range stmt.BindParamCount() {
		v := dbaas.Null()
		if i < len(in.Args) {
			v = in.Args[i]
		}
		for _, n := range in.Named {
			if name := stmt.BindParamName(i + 1); name != "" && n.Name == name[1:] {
				v = n.Value
			}
		}
		switch v.Kind {
		case dbaas.KindInteger:
			stmt.BindInt64(i+1, v.Int)
		case dbaas.KindFloat:
			stmt.BindFloat(i+1, v.Float)
		case dbaas.KindText:
			stmt.BindText(i+1, v.Text)
		case dbaas.KindBlob:
			stmt.BindBytes(i+1, v.Blob)
		case dbaas.KindNull:
			stmt.BindNull(i + 1)
		}
	}
}

// plainValue returns a value of the current row.
func plainValue(stmt *sqlite.Stmt, i int) any {
	switch stmt.ColumnType(i) {
	case sqlite.TypeInteger:
		return stmt.ColumnInt64(i)
	case sqlite.TypeFloat:
		return stmt.ColumnFloat(i)
	case sqlite.TypeText:
		return stmt.ColumnText(i)
	case sqlite.TypeBlob:
		blob, _ := io.ReadAll(stmt.ColumnReader(i)) // memory, which cannot fail
		return blob
	case sqlite.TypeNull:
	}
	return nil
}

// asBody returns the statements as a body of the SQL form.
func asBody(statements []sqlgen.Statement) string {
	body := make([]any, len(statements))
	for i := range statements {
		st := &statements[i]
		one := []any{st.SQL}
		for _, v := range st.Args {
			one = append(one, parameter(v))
		}
		if len(st.Named) > 0 {
			named := map[string]any{}
			for _, v := range st.Named {
				named[v.Name] = parameter(v.Value)
			}
			one = append(one, named)
		}
		body[i] = one
	}
	return toJSON(body)
}

// parameter returns a value as a parameter of the SQL form: a float has a point or an exponent, a blob is an array of
// bytes.
func parameter(v dbaas.Value) any {
	switch v.Kind {
	case dbaas.KindInteger:
		return v.Int
	case dbaas.KindFloat:
		return json.RawMessage(strconv.FormatFloat(v.Float, 'e', -1, 64))
	case dbaas.KindText:
		return v.Text
	case dbaas.KindBlob:
		numbers := make([]int, len(v.Blob))
		for i, b := range v.Blob {
			numbers[i] = int(b)
		}
		return numbers
	case dbaas.KindNull:
	}
	return nil
}

// results runs statements and returns their results and the position of the answer.
func (s *system) results(t *testing.T, path, body string, headers ...string) ([]statementResult, string) {
	t.Helper()
	a := s.Post(t, s.db(path), body, headers...).expect(t, http.StatusOK, anyBody)
	return decode[sqlResults](t, a).Results, a.Header.Get("X-Seq")
}

// differs says how a result differs from plain SQLite's, "" if it does not. Without values, rows are only counted.
func differs(want *plainResult, got *statementResult, values bool) string {
	if want.err != nil || got.Error != "" {
		if want.err == nil || got.Error == "" || !strings.HasSuffix(": "+want.err.Error(), ": "+got.Error) {
			return fmt.Sprintf("got error %q, want %v", got.Error, want.err)
		}
		return ""
	}
	if len(want.columns) == 0 && want.affected >= 0 && got.RowsAffected != want.affected {
		return fmt.Sprintf("got %d rows affected, want %d", got.RowsAffected, want.affected)
	}
	if len(want.columns) == 0 && want.lastID >= 0 && got.LastInsertID != want.lastID {
		return fmt.Sprintf("got last id %d, want %d", got.LastInsertID, want.lastID)
	}
	if !slices.EqualFunc(want.columns, got.Columns, func(w, g string) bool { return w == "" || w == g }) || len(want.rows) != len(got.Values) {
		return fmt.Sprintf("got columns %q and %d rows, want %q and %d", got.Columns, len(got.Values), want.columns, len(want.rows))
	}
	for i := range want.rows {
		if values && !slices.EqualFunc(want.rows[i], got.Values[i], sameValue) {
			return fmt.Sprintf("row %d: got %s, want %v", i, got.Values[i], want.rows[i])
		}
	}
	return ""
}

// sameValue reports whether a value in an answer is the value that SQLite has. An integer must have the same digits, a
// float may be any number that reads back as the same float, and a blob is base64.
func sameValue(want any, got json.RawMessage) bool {
	switch w := want.(type) {
	case int64:
		return string(got) == strconv.FormatInt(w, 10)
	case float64:
		f, err := strconv.ParseFloat(string(got), 64)
		return err == nil && math.Float64bits(f) == math.Float64bits(w)
	default: // encoding/json writes []byte as base64, and replaces what is no UTF-8 as the system does
		var v, g any
		return json.Unmarshal([]byte(toJSON(want)), &v) == nil && json.Unmarshal(got, &g) == nil && v == g
	}
}
