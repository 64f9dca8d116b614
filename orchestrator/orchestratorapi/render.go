package orchestratorapi

import (
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// renderOptions say how results are written.
type renderOptions struct {
	associative, blobArray, timings bool
	// took is the duration of the whole operation. Its statements are committed
	// together and are not timed separately.
	took time.Duration
}

// appendResults appends the results of a write, separated by commas, in rqlite's format. Each is the
// statement's error, or its rows if it returns any, or else the last insert id and the number of
// affected rows, each left out if zero.
func appendResults(b []byte, results []dbaas.StatementResult, o renderOptions) []byte {
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &results[i], o)
	}
	return b
}

func appendResult(b []byte, r *dbaas.StatementResult, o renderOptions) []byte {
	if r.Code != dbaas.CodeOK || r.Message != "" { // a message without a code: the statement was done, but its answer was not kept.
		return append(sqlite.AppendText(append(b, `{"error":`...), r.Message), '}')
	}
	b = append(b, '{')
	switch {
	case len(r.Columns) > 0 && o.associative:
		b = appendAssociative(b, r, o)
	case len(r.Columns) > 0:
		b = appendArrays(b, r, o)
	default:
		b = appendChange(b, r, o)
	}
	if o.timings {
		b = appendSeconds(append(comma(b), `"time":`...), o.took)
	}
	return append(b, '}')
}

func appendChange(b []byte, r *dbaas.StatementResult, o renderOptions) []byte {
	if r.LastInsertID != 0 {
		b = strconv.AppendInt(append(b, `"last_insert_id":`...), r.LastInsertID, 10)
	}
	if r.RowsAffected != 0 {
		b = strconv.AppendInt(append(comma(b), `"rows_affected":`...), r.RowsAffected, 10)
	}
	if o.associative {
		b = append(comma(b), `"rows":null`...)
	}
	return b
}

func appendArrays(b []byte, r *dbaas.StatementResult, o renderOptions) []byte {
	b = appendTexts(append(b, `"columns":`...), r.Columns)
	b = appendTexts(append(b, `,"types":`...), r.Types)
	if len(r.Rows) == 0 {
		return b
	}
	b = append(b, `,"values":[`...)
	for i, row := range r.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, v := range row {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, v, o)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// appendAssociative appends rows as objects. If several columns have the same name, the
// last column counts, as in a map.
func appendAssociative(b []byte, r *dbaas.StatementResult, o renderOptions) []byte {
	last := make(map[string]int, len(r.Columns))
	for i, name := range r.Columns {
		last[name] = i
	}
	object := func(b []byte, value func(b []byte, i int) []byte) []byte {
		b = append(b, '{')
		for i, name := range r.Columns {
			if last[name] == i {
				b = value(append(sqlite.AppendText(comma(b), name), ':'), i)
			}
		}
		return append(b, '}')
	}
	b = object(append(b, `"types":`...), func(b []byte, i int) []byte {
		if i < len(r.Types) {
			return sqlite.AppendText(b, r.Types[i])
		}
		return append(b, `""`...)
	})
	b = append(b, `,"rows":[`...)
	for n, row := range r.Rows {
		if n > 0 {
			b = append(b, ',')
		}
		b = object(b, func(b []byte, i int) []byte { return appendValue(b, row[i], o) })
	}
	return append(b, ']')
}

// comma appends a comma unless b ends with the object's opening brace.
func comma(b []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return b
}

func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = sqlite.AppendText(b, s)
	}
	return append(b, ']')
}

func appendValue(b []byte, v dbaas.Value, o renderOptions) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return strconv.AppendInt(b, v.Int, 10)
	case dbaas.KindFloat:
		return sqlite.AppendFloat(b, v.Float)
	case dbaas.KindText:
		return sqlite.AppendText(b, v.Text)
	case dbaas.KindBlob:
		return sqlite.AppendBlob(b, v.Blob, o.blobArray)
	case dbaas.KindNull:
	}
	return append(b, "null"...)
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', -1, 64)
}
