package orchestratorapi

import (
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
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
		return append(sqljson.AppendText(append(b, `{"error":`...), r.Message), '}')
	}
	at := len(b)
	b = append(b, '{')
	if len(r.Columns) > 0 {
		var err error
		if b, err = (sqljson.Renderer{Objects: o.associative, BlobArray: o.blobArray}).AppendStored(b, r); err != nil {
			return append(sqljson.AppendText(append(b[:at], `{"error":`...), err.Error()), '}')
		}
	} else {
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

// comma appends a comma unless b ends with the object's opening brace.
func comma(b []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return b
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', -1, 64)
}
