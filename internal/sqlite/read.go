package sqlite

import (
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
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
	s, more, err := c.first(&r.Statements[0])
	if err != nil {
		return b, err
	}
	defer s.reset()
	w := c.renderer(b, r)
	return w.AppendRows(b, s.columns, (*rows)(s), more)
}

func (c *Conn) appendStatements(b []byte, r *dbaas.Read) ([]byte, error) {
	w := c.renderer(b, r)
	for i := range r.Statements {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = c.appendStatement(b, &w, &r.Statements[i], r.Timings); err != nil {
			return b, err
		}
	}
	return b, nil
}

// renderer returns the renderer of r's answer, which begins at the end of b.
func (c *Conn) renderer(b []byte, r *dbaas.Read) sqljson.Renderer {
	return sqljson.Renderer{Objects: r.Format != dbaas.FormatArrays, BlobArray: r.BlobArray, Start: len(b), Limit: c.limits.Answer}
}

// appendStatement appends one statement of the SQL form.
func (c *Conn) appendStatement(b []byte, w *sqljson.Renderer, in *dbaas.Statement, timings bool) ([]byte, error) {
	began := time.Time{}
	if timings {
		began = time.Now()
	}
	at := len(b)
	b, err := c.appendResult(append(b, '{'), w, in)
	if err != nil {
		if !own(dbaas.CodeOf(err)) {
			return b, err
		}
		b = append(shorten(b, at), `{"error":`...)
		b = sqljson.AppendText(b, messageOf(err))
	}
	if timings {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, `"time":`...)
		b = strconv.AppendFloat(b, time.Since(began).Seconds(), 'f', -1, 64)
	}
	return append(b, '}'), nil
}

func (c *Conn) appendResult(b []byte, w *sqljson.Renderer, in *dbaas.Statement) ([]byte, error) {
	s, more, err := c.first(in)
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
func (c *Conn) first(in *dbaas.Statement) (s *Stmt, more bool, err error) {
	if s, err = c.prepare(in.SQL, GuardRead); err != nil {
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
func (r *rows) Value(i, room int) (dbaas.Value, bool) {
	s := (*Stmt)(r)
	kind := s.kind(i)
	if s.size(i, kind) > room {
		return dbaas.Value{}, false
	}
	return s.borrow(i, kind), true
}

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
