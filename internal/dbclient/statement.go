package dbclient

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
)

// SQL returns a statement with parameters by position.
func SQL(text string, args ...dbaas.Value) dbaas.Statement {
	return dbaas.Statement{SQL: text, Args: args}
}

// Result is the result of one statement.
type Result struct {
	// Rows holds nil, string, int64, float64 or bool values, in the order of the statement's columns.
	Rows         [][]any
	LastInsertID int64
	RowsAffected int64
}

// wireResult is a Result as sent in JSON, or the statement's error.
type wireResult struct {
	Values       [][]any `json:"values"`
	LastInsertID int64   `json:"last_insert_id"`
	RowsAffected int64   `json:"rows_affected"`
	Error        string  `json:"error"`
}

// encodeStatements renders [["sql", value, ...], ...].
func encodeStatements(stmts []dbaas.Statement) ([]byte, error) {
	rows := make([][]any, len(stmts))
	for i, s := range stmts {
		row := make([]any, 0, len(s.Args)+2)
		row = append(row, s.SQL)
		for _, v := range s.Args {
			row = append(row, plain(v))
		}
		if len(s.Named) > 0 {
			named := make(map[string]any, len(s.Named))
			for _, n := range s.Named {
				named[n.Name] = plain(n.Value)
			}
			row = append(row, named)
		}
		rows[i] = row
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rows); err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInternal, "encode statements", err)
	}
	return buf.Bytes(), nil
}

// plain returns v as encoding/json writes it.
func plain(v dbaas.Value) any {
	switch v.Kind {
	case dbaas.KindNull:
		return nil
	case dbaas.KindInteger:
		return v.Int
	case dbaas.KindFloat:
		return v.Float
	case dbaas.KindText:
		return v.Text
	case dbaas.KindBlob:
		return base64.StdEncoding.EncodeToString(v.Blob)
	}
	return nil
}

// decodeResults reads {"results":[...]} with one result for each of want statements. At a statement's error it stops,
// and returns the results before it with the error.
func decodeResults(body []byte, want int) ([]Result, error) {
	var wire struct {
		Results []wireResult `json:"results"`
		Error   string       `json:"error"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // A float64 represents integers exactly only up to 2^53.
	if err := dec.Decode(&wire); err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInternal, "decode results", err)
	}
	if wire.Error != "" {
		return nil, statementError(wire.Error)
	}
	results := make([]Result, 0, len(wire.Results))
	for _, w := range wire.Results {
		if w.Error != "" {
			return results, statementError(w.Error)
		}
		if err := exact(w.Values); err != nil {
			return results, err
		}
		results = append(results, Result{Rows: w.Values, LastInsertID: w.LastInsertID, RowsAffected: w.RowsAffected})
	}
	if len(results) != want {
		return results, dbaas.Errorf(dbaas.CodeInternal, "%d results for %d statements", len(results), want)
	}
	return results, nil
}

// exact replaces numbers by int64 where they are integers, by float64 otherwise.
func exact(rows [][]any) error {
	for _, row := range rows {
		for i, v := range row {
			n, ok := v.(json.Number)
			if !ok {
				continue
			}
			if integer, err := n.Int64(); err == nil {
				row[i] = integer
				continue
			}
			f, err := n.Float64()
			if err != nil {
				return dbaas.WrapError(dbaas.CodeInternal, "decode number", err)
			}
			row[i] = f
		}
	}
	return nil
}

// The beginnings of the texts with which the database ends a statement that is over a limit: what a statement may take, in
// docs/OPERATIONS.md.
var (
	overSize = []string{"the answer is over the limit of ", "the statement needs more than ", "string or blob too big"}
	overTime = []string{"execute timeout", "query timeout", "interrupted: the statement took too long"}
)

// statementError returns the error for the database's message about one statement. All constraint violations get the same
// wording. A statement that took too long has failed for good, and changed nothing. Anything else is a bug in this
// program's SQL.
func statementError(text string) error {
	begins := func(start string) bool { return strings.HasPrefix(text, start) }
	switch {
	case strings.Contains(text, "constraint failed"):
		return dbaas.Errorf(dbaas.CodeConstraint, "%s", text)
	case slices.ContainsFunc(overSize, begins):
		return dbaas.Errorf(dbaas.CodeTooLarge, "%s", text)
	case slices.ContainsFunc(overTime, begins):
		return dbaas.Errorf(dbaas.CodeUnavailable, "%s: the statement takes too long, it was not done", text)
	}
	return dbaas.Errorf(dbaas.CodeInternal, "statement: %s", text)
}
