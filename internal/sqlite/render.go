package sqlite

import (
	"encoding/base64"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
)

// AppendRead runs the guarded statements of r and appends the answer in r's format to b, row by row, without an
// intermediate copy. All statements see one state if the caller has a transaction open.
//
// After an error it returns the original b. Errors are *dbaas.Error: CodeTimeout at r's deadline, CodeTooLarge for an
// answer over the limit. FormatObjects takes exactly one statement, and CodeInvalid says what is wrong with it. In the
// other formats an invalid statement answers {"error":"..."} in its place and the read continues.
func (c *Conn) AppendRead(b []byte, r *dbaas.Read) ([]byte, error) {
	out := b
	err := c.Until(r.Deadline, func() error {
		var err error
		if r.Format == dbaas.FormatObjects {
			out, err = c.appendObjects(b, r)
			return err
		}
		out, err = c.appendStatements(b, r)
		return err
	})
	if err != nil {
		return b, err
	}
	return out, nil
}

func (c *Conn) appendObjects(b []byte, r *dbaas.Read) ([]byte, error) {
	if len(r.Statements) != 1 {
		return b, dbaas.Errorf(dbaas.CodeInvalid, "exactly one statement is wanted, %d were given", len(r.Statements))
	}
	w := renderer{c: c, r: r, start: len(b), objects: true}
	s, more, err := w.first(&r.Statements[0])
	if err != nil {
		return b, err
	}
	return w.rows(append(b, '['), s, more)
}

func (c *Conn) appendStatements(b []byte, r *dbaas.Read) ([]byte, error) {
	w := renderer{c: c, r: r, start: len(b), objects: r.Format == dbaas.FormatAssociative}
	for i := range r.Statements {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = w.statement(b, &r.Statements[i]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// renderer writes one read's answer.
type renderer struct {
	c       *Conn
	r       *dbaas.Read
	start   int // where the answer begins in the buffer
	objects bool
}

// statement appends one statement of the SQL form.
func (w *renderer) statement(b []byte, in *dbaas.Statement) ([]byte, error) {
	began := time.Time{}
	if w.r.Timings {
		began = time.Now()
	}
	at := len(b)
	b = append(b, '{')
	s, more, err := w.first(in)
	if err == nil {
		b, err = w.body(b, s, more)
	}
	if err != nil {
		if !own(dbaas.CodeOf(err)) {
			return b, err
		}
		b = append(shorten(b, at), `{"error":`...)
		b = AppendText(b, messageOf(err))
	}
	if w.r.Timings {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, `"time":`...)
		b = strconv.AppendFloat(b, time.Since(began).Seconds(), 'f', -1, 64)
	}
	return append(b, '}'), nil
}

// shorten returns the first n bytes of b, copied if b's array is much larger.
func shorten(b []byte, n int) []byte {
	if cap(b) <= 2*n+keptBytes {
		return b[:n]
	}
	return append(make([]byte, 0, n+keptBytes), b[:n]...)
}

const keptBytes = 64 << 10

// first prepares and binds a statement and runs it up to its first row.
func (w *renderer) first(in *dbaas.Statement) (s *Stmt, more bool, err error) {
	if s, err = w.c.prepare(in.SQL, GuardRead); err != nil {
		return nil, false, err
	}
	if err = s.bind(in.Args, in.Named); err != nil {
		s.reset()
		return nil, false, err
	}
	if more, err = s.step(); err != nil {
		return nil, false, err
	}
	s.refresh()
	return s, more, nil
}

// body appends the fields of a statement's answer, without its brackets. Like rqlite, it omits "values" when there are
// no rows.
func (w *renderer) body(b []byte, s *Stmt, more bool) ([]byte, error) {
	if w.objects {
		b = append(b, `"types":{`...)
		for i := range s.columns {
			if s.columns[i].dup {
				continue
			}
			b = AppendText(append(b, s.columns[i].key...), s.typeOf(i, more))
			b = append(b, ',')
		}
		return w.rows(append(trimComma(b), `},"rows":[`...), s, more)
	}
	b = append(b, `"columns":[`...)
	for i := range s.columns {
		key := s.columns[i].key
		b = append(append(b, key[:len(key)-1]...), ',')
	}
	b = append(trimComma(b), `],"types":[`...)
	for i := range s.columns {
		b = append(AppendText(b, s.typeOf(i, more)), ',')
	}
	b = append(trimComma(b), ']')
	if !more {
		s.reset()
		return b, nil
	}
	return w.rows(append(b, `,"values":[`...), s, more)
}

// rows appends all rows and the closing bracket, and resets the statement.
func (w *renderer) rows(b []byte, s *Stmt, more bool) ([]byte, error) {
	defer s.reset()
	for n := 1; more; n++ {
		if limit := w.c.limits.Rows; limit > 0 && n > limit {
			return b, errTooManyRows(limit)
		}
		before := len(b)
		var err error
		if b, err = w.row(b, s); err != nil {
			return b, err
		}
		if err = w.c.meter.hold(len(b) - before); err != nil {
			return b, err
		}
		if more, err = s.step(); err != nil {
			return b, err
		}
		if more {
			b = append(b, ',')
		}
	}
	return append(b, ']'), nil
}

func (w *renderer) row(b []byte, s *Stmt) ([]byte, error) {
	open, end := byte('['), byte(']')
	if w.objects {
		open, end = '{', '}'
	}
	b = append(b, open)
	for i := range s.columns {
		if w.objects {
			if s.columns[i].dup {
				continue
			}
			b = append(b, s.columns[i].key...)
		}
		var err error
		if b, err = w.value(b, s, i); err != nil {
			return b, err
		}
		b = append(b, ',')
	}
	return append(trimComma(b), end), nil
}

// value appends one value. A value that is too long for the answer is not even fetched.
func (w *renderer) value(b []byte, s *Stmt, i int) ([]byte, error) {
	kind := s.kind(i)
	room := w.c.limits.Answer - (len(b) - w.start)
	size := s.size(i, kind)
	if kind == dbaas.KindBlob {
		size = base64.StdEncoding.EncodedLen(size) // an array of numbers is longer.
	}
	if room < size {
		return b, errLargeAnswer(w.c.limits.Answer)
	}
	switch kind {
	case dbaas.KindInteger:
		return strconv.AppendInt(b, s.int(i), 10), nil
	case dbaas.KindFloat:
		return AppendFloat(b, s.float(i)), nil
	case dbaas.KindText:
		b = AppendText(b, s.text(i))
	case dbaas.KindBlob:
		b = AppendBlob(b, s.blob(i), w.r.BlobArray)
	case dbaas.KindNull:
		return append(b, "null"...), nil
	}
	if len(b)-w.start > w.c.limits.Answer { // as JSON it is longer.
		return b, errLargeAnswer(w.c.limits.Answer)
	}
	return b, nil
}

func trimComma(b []byte) []byte {
	if b[len(b)-1] == ',' {
		return b[:len(b)-1]
	}
	return b
}
