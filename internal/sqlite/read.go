package sqlite

import (
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// AppendRead runs the statements of r, which guard checks, and appends the answer in r's format to b, row by row, without
// an intermediate copy. All statements see one state if the caller has a transaction open.
//
// After an error it returns the original b. Errors are *dbaas.Error: CodeTimeout at r's deadline, CodeTooLarge for an
// answer over the limit. FormatObjects takes exactly one statement, and CodeInvalid says what is wrong with it. In the
// other formats an invalid statement answers {"error":"..."} in its place and the read continues.
func (c *Conn) AppendRead(b []byte, r *dbaas.Read, guard Guard) ([]byte, error) {
	w := reader{c: c, guard: guard, timings: r.Timings, Renderer: sqljson.Renderer{
		Objects: r.Format != dbaas.FormatArrays, BlobArray: r.BlobArray, Start: len(b), Limit: c.limits.Answer,
	}}
	out := b
	err := c.Until(r.Deadline, func() (err error) {
		if r.Format == dbaas.FormatObjects {
			out, err = w.only(b, r.Statements)
			return err
		}
		out, err = w.each(b, r.Statements)
		return err
	})
	if err != nil {
		return b, err
	}
	return out, nil
}

// reader runs the statements of one read.
type reader struct {
	sqljson.Renderer

	c       *Conn
	guard   Guard
	timings bool
}

// only appends the rows of the only statement.
func (w *reader) only(b []byte, list []dbaas.Statement) ([]byte, error) {
	if len(list) != 1 {
		return b, dbaas.Errorf(dbaas.CodeInvalid, "exactly one statement is wanted, %d were given", len(list))
	}
	s, more, err := w.first(&list[0])
	if err != nil {
		return b, err
	}
	defer s.reset()
	return w.AppendRows(b, s.columns, (*rows)(s), more)
}

// each appends the results of all statements, separated by commas.
func (w *reader) each(b []byte, list []dbaas.Statement) ([]byte, error) {
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = w.statement(b, &list[i]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// statement appends one statement of the SQL form.
func (w *reader) statement(b []byte, in *dbaas.Statement) ([]byte, error) {
	began := time.Time{}
	if w.timings {
		began = time.Now()
	}
	at := len(b)
	b, err := w.result(append(b, '{'), in)
	if err != nil {
		if !own(dbaas.CodeOf(err)) {
			return b, err
		}
		b = append(shorten(b, at), `{"error":`...)
		b = sqljson.AppendText(b, messageOf(err))
	}
	if w.timings {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, `"time":`...)
		b = strconv.AppendFloat(b, time.Since(began).Seconds(), 'f', -1, 64)
	}
	return append(b, '}'), nil
}

func (w *reader) result(b []byte, in *dbaas.Statement) ([]byte, error) {
	s, more, err := w.first(in)
	if err != nil {
		return b, err
	}
	defer s.reset()
	return w.AppendResult(b, s.columns, (*rows)(s), more)
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
func (w *reader) first(in *dbaas.Statement) (s *Stmt, more bool, err error) {
	if s, err = w.c.Prepare(in.SQL, w.guard); err != nil {
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
	s.returned = 0
	return s, more, nil
}

// rows is a running statement as the renderer's source.
type rows Stmt

// Type implements sqljson.Rows.
func (r *rows) Type(i int, row bool) string { return (*Stmt)(r).typeOf(i, row) }

// Value implements sqljson.Rows.
func (r *rows) Value(i, room int) (dbaas.Value, bool) { return (*Stmt)(r).borrow(i, room) }

// Next implements sqljson.Rows.
func (r *rows) Next(rendered int) (bool, error) {
	s := (*Stmt)(r)
	if err := s.c.meter.hold(rendered); err != nil {
		return false, err
	}
	more, err := s.step()
	if s.returned++; more && s.returned == s.c.limits.Rows {
		return false, errTooManyRows(s.returned)
	}
	return more, err
}
