package sqlite

import (
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// AppendRead runs the statements of r, which guard checks, and appends the answer in r's format to b, row by row,
// without an intermediate copy. All statements see the same state if the caller has a transaction open.
//
// After an error it returns the original b. Errors are *dbaas.Error, such as CodeTimeout at r's deadline. FormatObjects
// takes exactly one statement; CodeInvalid says what is wrong with it, and CodeTooLarge means that the answer exceeds
// the limit. In the other formats a statement that fails alone, for one of these two reasons or CodeConstraint, answers
// {"error":"..."} in its place and the read continues, unless the answer with that text exceeds the limit.
func (c *Conn) AppendRead(b []byte, r *dbaas.Read, guard Guard) ([]byte, error) {
	w := reader{c: c, guard: guard, read: r, Renderer: sqljson.Renderer{
		Objects: r.Format != dbaas.FormatArrays, BlobArray: r.BlobArray, Start: len(b), Limit: c.limits.Answer,
	}}
	out := b
	c.queried = nil
	defer c.meter.watched.end() // also if the engine panics
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
	if len(r.Statements) == 1 {
		c.queried = w.done
	}
	return out, nil
}

// reader runs the statements of one read.
type reader struct {
	sqljson.Renderer

	c     *Conn
	guard Guard
	read  *dbaas.Read
	done  *Stmt // the last statement that was the only one of its text and ran without error
}

// only appends the rows of the read's only statement.
func (w *reader) only(b []byte, list []dbaas.Statement) ([]byte, error) {
	if len(list) != 1 {
		return b, dbaas.Errorf(dbaas.CodeInvalid, "exactly one statement is wanted, %d were given", len(list))
	}
	s, more, err := w.first(list[0].SQL, &Input{Statement: &list[0]})
	if err != nil {
		return b, err
	}
	defer s.reset()
	if b, err = w.AppendRows(b, s.columns, (*rows)(s), more); err == nil {
		w.done = s
	}
	return b, err
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

// statement appends one statement of the SQL form: its result, or its error if the answer with that fits.
func (w *reader) statement(b []byte, in *dbaas.Statement) ([]byte, error) {
	began := time.Time{}
	if w.read.Timings {
		began = time.Now()
	}
	at := len(b)
	b, err := w.result(append(b, '{'), in)
	if err = w.late(err); err == nil {
		b = w.end(b, began)
		if err = w.Fits(b); err == nil {
			return b, nil
		}
		w.done = nil
	}
	if !own(dbaas.CodeOf(err)) {
		return b, err
	}
	b = append(shorten(b, at), '{')
	if w.Objects && w.read.AsQuery {
		b = append(b, `"rows":[],`...)
	}
	b = append(b, `"error":`...)
	b = w.end(sqljson.AppendText(b, messageOf(err)), began)
	return b, w.Fits(b)
}

// end appends the end of a statement's result, with the time since began if the read wants it.
func (w *reader) end(b []byte, began time.Time) []byte {
	if w.read.Timings {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, `"time":`...)
		b = strconv.AppendFloat(b, time.Since(began).Seconds(), 'f', -1, 64)
	}
	return append(b, '}')
}

// late returns err. If the statement exceeded the client's time limit for one statement, it returns CodeInvalid
// instead, so that the read continues.
func (w *reader) late(err error) error {
	ended := w.c.Interrupted() || !time.Now().Before(w.read.Deadline)
	if w.read.StatementTime == 0 || dbaas.CodeOf(err) != dbaas.CodeTimeout || ended {
		return err
	}
	if w.read.AsQuery {
		return dbaas.Errorf(dbaas.CodeInvalid, "query timeout")
	}
	return dbaas.Errorf(dbaas.CodeInvalid, "execute timeout")
}

// result runs the statements of a text and appends the result of the last one. It appends nothing if there is no
// statement.
func (w *reader) result(b []byte, in *dbaas.Statement) ([]byte, error) {
	input := Input{Statement: in, QualifyColumns: w.read.QualifyColumns}
	text := in.SQL
	for {
		end := time.Time{}
		if w.read.StatementTime > 0 {
			end = time.Now().Add(w.read.StatementTime)
		}
		rest := ""
		err := w.c.Until(end, func() (err error) {
			if len(text) < len(in.SQL) && w.c.over() { // the engine checks the clock only within statements
				return errTooLong
			}
			b, rest, err = w.part(b, text, &input)
			return err
		})
		if err == ErrNoStatement { //nolint:errorlint // it is returned as it is.
			return b, input.Nothing()
		}
		if err != nil || rest == "" {
			return b, err
		}
		text = rest
	}
}

// part runs the first statement in text and returns the text after it. It appends the result if no statement follows.
func (w *reader) part(b []byte, text string, in *Input) (_ []byte, rest string, err error) {
	s, more, err := w.first(text, in)
	if err != nil {
		return b, "", err
	}
	defer s.reset()
	if s.rest == "" {
		columns := s.columns
		if in.QualifyColumns {
			columns = sqljson.NewColumns(s.named(true))
		}
		if b, err = w.AppendResult(b, columns, (*rows)(s), more); err == nil && len(text) == len(in.Statement.SQL) {
			w.done = s
		}
		return b, "", err
	}
	for more && err == nil {
		more, err = s.step()
	}
	return b, s.rest, err
}

// shorten returns the first n bytes of b. It copies them if b's array is much larger.
func shorten(b []byte, n int) []byte {
	if cap(b) <= 2*n+keptBytes {
		return b[:n]
	}
	return append(make([]byte, 0, n+keptBytes), b[:n]...)
}

const keptBytes = 64 << 10

// first prepares and binds a statement and runs it up to its first row.
func (w *reader) first(text string, in *Input) (s *Stmt, more bool, err error) {
	if s, err = w.c.Prepare(text, w.guard); err != nil {
		return nil, false, err
	}
	args, err := in.take(s)
	if err == nil {
		err = s.bind(args)
	}
	if err != nil {
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

// rows is a running statement as the renderer's source of rows.
type rows Stmt

// Declared implements sqljson.Rows.
func (r *rows) Declared(i int) string { return r.declared[i] }

// Kind implements sqljson.Rows.
func (r *rows) Kind(i int) dbaas.ValueKind { return (*Stmt)(r).kind(i) }

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
