package sqljson

import (
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// Columns are the names of a result's columns, ready to be rendered. They never change, so they are safe for concurrent
// use.
type Columns []column

type column struct {
	name string
	key  []byte // `"name":`
	dup  bool   // a later column has the same name
}

// NewColumns returns the Columns of a result.
func NewColumns(names []string) Columns {
	columns := make(Columns, len(names))
	for i, name := range names {
		columns[i] = column{name: name, key: append(AppendText(nil, name), ':'), dup: slices.Contains(names[i+1:], name)}
	}
	return columns
}

// Rows is the source of a result. It starts at the first row, if there is a row.
type Rows interface {
	// Declared returns the declared type of column i in lower case, "" for an expression.
	Declared(i int) string
	// Kind returns the storage class of column i in the current row.
	Kind(i int) dbaas.ValueKind
	// Value returns the value in column i of the current row. Its text or blob is valid until Next. If it is a text or
	// blob of more than room bytes, the value is not fetched and fits is false.
	Value(i, room int) (v dbaas.Value, fits bool)
	// Next moves to the next row and reports whether there is a next row. rendered is the size of the current row as
	// JSON. The renderer returns an error of Next as it is.
	Next(rendered int) (more bool, err error)
}

// Renderer writes the results of one answer into one buffer.
type Renderer struct {
	// Objects makes each row an object instead of an array. If columns have the same name, the object has only the last of
	// them.
	Objects bool
	// BlobArray makes each blob an array of numbers instead of base64 text.
	BlobArray bool
	// Limit is the largest size of the answer in bytes; no limit if zero. Start is where the answer begins in the buffer.
	Start, Limit int
}

// AppendResult appends the columns, types and rows of a result as fields of an object, without its braces. row says
// whether there is a first row. Unless Objects is set, it omits "values" if there are no rows, like rqlite. Errors are
// those of AppendRows.
func (r *Renderer) AppendResult(b []byte, columns Columns, rows Rows, row bool) ([]byte, error) {
	if r.Objects {
		b = append(b, `"types":{`...)
		for i := range columns {
			if columns[i].dup {
				continue
			}
			b = append(AppendText(append(b, columns[i].key...), typeOf(rows, i, row)), ',')
		}
		b = append(trimComma(b), `},"rows":`...)
		if err := r.Fits(b); err != nil {
			return b, err
		}
		return r.appendRows(b, columns, rows, row, conversions(columns, rows))
	}
	b = append(b, `"columns":[`...)
	for i := range columns {
		key := columns[i].key
		b = append(append(b, key[:len(key)-1]...), ',')
	}
	b = append(trimComma(b), `],"types":[`...)
	for i := range columns {
		b = append(AppendText(b, typeOf(rows, i, row)), ',')
	}
	b = append(trimComma(b), ']')
	if !row {
		return b, r.Fits(b)
	}
	return r.appendRows(append(b, `,"values":`...), columns, rows, row, conversions(columns, rows))
}

// typeOf returns the type of a column as rqlite does: the declared type, or for an expression the storage class in the
// first row; "" if that is NULL or there are no rows.
func typeOf(rows Rows, i int, row bool) string {
	if t := rows.Declared(i); t != "" || !row {
		return t
	}
	switch rows.Kind(i) {
	case dbaas.KindInteger:
		return "integer"
	case dbaas.KindFloat:
		return "real"
	case dbaas.KindText:
		return "text"
	case dbaas.KindBlob:
		return "blob"
	case dbaas.KindNull:
	}
	return ""
}

// AppendRows appends all rows as an array, with their values as stored. It returns TooLarge if the answer exceeds the
// limit, Infinite for an infinity, which JSON lacks, and the errors of Rows.Next. After an error the array in the
// buffer is incomplete.
func (r *Renderer) AppendRows(b []byte, columns Columns, rows Rows, row bool) ([]byte, error) {
	return r.appendRows(b, columns, rows, row, nil)
}

func (r *Renderer) appendRows(b []byte, columns Columns, rows Rows, row bool, as []conversion) ([]byte, error) {
	b = append(b, '[')
	for row {
		before := len(b)
		var err error
		if b, err = r.appendRow(b, columns, rows, as); err != nil {
			return b, err
		}
		if row, err = rows.Next(len(b) - before); err != nil {
			return b, err
		}
		b = append(b, ',')
	}
	b = append(trimComma(b), ']')
	return b, r.Fits(b)
}

func (r *Renderer) appendRow(b []byte, columns Columns, rows Rows, as []conversion) ([]byte, error) {
	open, end := byte('['), byte(']')
	if r.Objects {
		open, end = '{', '}'
	}
	b = append(b, open)
	room := math.MaxInt
	for i := range columns {
		if r.Objects {
			if columns[i].dup {
				continue
			}
			b = append(b, columns[i].key...)
		}
		if r.Limit > 0 {
			if room = r.Limit - (len(b) - r.Start); room < 0 {
				return b, TooLarge(r.Limit)
			}
		}
		v, fits := rows.Value(i, room)
		if !fits {
			return b, TooLarge(r.Limit)
		}
		if v.Kind == dbaas.KindFloat && math.IsInf(v.Float, 0) {
			return b, Infinite(columns[i].name)
		}
		before := len(b)
		if as == nil {
			b = appendValue(b, &v, r.BlobArray)
		} else {
			b = as[i].append(b, &v, r.BlobArray)
		}
		if long := v.Kind == dbaas.KindText || v.Kind == dbaas.KindBlob; long && len(b)-before > room { // the JSON form may be longer than the value.
			return b, TooLarge(r.Limit)
		}
		b = append(b, ',')
	}
	return append(trimComma(b), end), nil
}

// Infinite returns the error for a column that holds an infinity, with dbaas.CodeInvalid.
func Infinite(column string) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeInvalid, "column %s holds an infinity, which JSON cannot carry", column)
}

// TooLarge returns the error for an answer over the limit, with dbaas.CodeTooLarge.
func TooLarge(limit int) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeTooLarge, "the answer is over the limit of %d bytes", limit)
}

// Fits returns TooLarge if the answer that b has so far exceeds the limit.
func (r *Renderer) Fits(b []byte) error {
	if r.Limit > 0 && len(b)-r.Start > r.Limit {
		return TooLarge(r.Limit)
	}
	return nil
}

func trimComma(b []byte) []byte {
	if b[len(b)-1] == ',' {
		return b[:len(b)-1]
	}
	return b
}
