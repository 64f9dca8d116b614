package sqlite

import (
	"math"
	"strings"

	"rideshare/internal/dbaas"

	lib "modernc.org/sqlite/lib"
)

// Input is a client's text with the values of its parameters. Its statements run one after another and take the values.
type Input struct {
	Statement *dbaas.Statement
	// QualifyColumns makes the result's column names "table.column".
	QualifyColumns bool

	next  int            // index of the first value that no statement has taken by position
	names map[string]int // index of a value by its name
	used  []bool         // by index: a statement has taken the value
}

// take returns the values of s's parameters. By position, s takes the next values, one for each of its parameters. A
// named value can be taken by every statement. After the last statement, take returns an error if a value is left.
func (in *Input) take(s *Stmt) ([]dbaas.Value, error) {
	if len(in.Statement.Named) > 0 {
		return in.takeNamed(s)
	}
	values, n := in.Statement.Args[in.next:], len(s.names)
	if len(values) < n {
		return nil, s.noValue(len(values))
	}
	in.next += n
	if s.rest == "" {
		return values[:n], in.left()
	}
	return values[:n], nil
}

func (in *Input) takeNamed(s *Stmt) ([]dbaas.Value, error) {
	named := in.Statement.Named
	if in.used == nil {
		in.used, in.names = make([]bool, len(named)), make(map[string]int, len(named))
		for place := range named {
			in.names[named[place].Name] = place
		}
	}
	values := make([]dbaas.Value, len(s.names))
	for i, name := range s.names {
		place, has := in.next+i, false
		if place < len(named) && named[place].Name == "" {
			values[i], in.used[place], has = named[place].Value, true, true
		}
		if name != "" && name[0] != '?' {
			if place, found := in.names[name[1:]]; found && has {
				return nil, dbaas.Errorf(dbaas.CodeInvalid, "parameter %s has two values", name)
			} else if found {
				values[i], in.used[place], has = named[place].Value, true, true
			}
		}
		if !has {
			return nil, s.noValue(i)
		}
	}
	in.next = min(in.next+len(values), len(named))
	if s.rest == "" {
		return values, in.left()
	}
	return values, nil
}

// left returns an error if a value was taken by no statement.
func (in *Input) left() error {
	if in.next < len(in.Statement.Args) {
		return dbaas.Errorf(dbaas.CodeInvalid, "value %d has no parameter", in.next+1)
	}
	for place := range in.Statement.Named {
		name := in.Statement.Named[place].Name
		switch {
		case in.used != nil && in.used[place]:
		case name == "":
			return dbaas.Errorf(dbaas.CodeInvalid, "value %d has no parameter", place+1)
		default:
			return dbaas.Errorf(dbaas.CodeInvalid, "value %q has no parameter", name)
		}
	}
	return nil
}

// HasValues reports whether the text has values for parameters.
func (in *Input) HasValues() bool { return len(in.Statement.Args)+len(in.Statement.Named) > 0 }

// Nothing must be called if a text has no statement, or no further statement. It returns an error if a value is left.
func (in *Input) Nothing() error { return in.left() }

// noValue returns the error for parameter i, which has no value.
func (s *Stmt) noValue(i int) error {
	if s.names[i] == "" {
		return dbaas.Errorf(dbaas.CodeInvalid, "no value for parameter %d", i+1)
	}
	return dbaas.Errorf(dbaas.CodeInvalid, "no value for parameter %s", s.names[i])
}

// bind sets every parameter. It copies the values once, into memory that the connection reuses.
func (s *Stmt) bind(args []dbaas.Value) error {
	if len(args) != len(s.names) {
		return dbaas.Errorf(dbaas.CodeInvalid, "the statement has %d parameters, %d values were given", len(s.names), len(args))
	}
	s.c.boundValues(s.guard)
	size := 0
	for i := range args {
		size += len(args[i].Text) + len(args[i].Blob)
	}
	if err := s.c.reserve(size); err != nil {
		return err
	}
	used := 0
	for i := range args {
		n, err := s.bindOne(int32(i+1), &args[i], used)
		if err != nil {
			return err
		}
		used += n
	}
	return nil
}

// static tells the engine that the bound memory does not change until the statement is done.
const static uintptr = 0

// bindOne binds one value. It returns how many bytes of the scratch memory, starting at used, the value takes.
func (s *Stmt) bindOne(i int32, v *dbaas.Value, used int) (int, error) {
	tls := s.c.tls
	var rc int32
	size := 0
	switch v.Kind {
	case dbaas.KindNull:
		rc = lib.Xsqlite3_bind_null(tls, s.p, i)
	case dbaas.KindInteger:
		rc = lib.Xsqlite3_bind_int64(tls, s.p, i, v.Int)
	case dbaas.KindFloat:
		rc = lib.Xsqlite3_bind_double(tls, s.p, i, v.Float)
	case dbaas.KindText:
		size = len(v.Text)
		at := s.c.textAt(used)
		copy(view(at, size), v.Text)
		rc = lib.Xsqlite3_bind_text(tls, s.p, i, at, int32(size), static)
	case dbaas.KindBlob:
		size = len(v.Blob)
		at := s.c.textAt(used)
		copy(view(at, size), v.Blob)
		rc = lib.Xsqlite3_bind_blob(tls, s.p, i, at, int32(size), static)
	default:
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "parameter %d has an unknown kind", i)
	}
	if rc != lib.SQLITE_OK {
		return 0, s.c.failure(rc)
	}
	return size, nil
}

// textAt returns the address of a value in the scratch memory. An empty value needs an address too: the engine would
// treat a null address as NULL.
func (c *Conn) textAt(used int) uintptr {
	if c.scratch == 0 {
		return c.out
	}
	return c.scratch + uintptr(used)
}

// Row is the current row of a Query. Its texts and blobs are copies, unless documented otherwise.
type Row struct{ s *Stmt }

// Int returns column i as an integer.
func (r Row) Int(i int) int64 {
	return lib.Xsqlite3_column_int64(r.s.c.tls, r.s.p, int32(i))
}

// Text returns column i as text.
func (r Row) Text(i int) string { return string(r.s.text(i)) }

// Blob returns column i as bytes; nil if it is empty.
func (r Row) Blob(i int) []byte { return append([]byte(nil), r.s.blob(i)...) }

// Value returns column i as it is stored.
func (r Row) Value(i int) dbaas.Value { return r.s.value(i) }

// Borrow is Value without a copy: a text or blob is the engine's memory, valid until the function that was called with
// the Row returns.
func (r Row) Borrow(i int) dbaas.Value {
	v, _ := r.s.borrow(i, math.MaxInt)
	return v
}

// Columns returns how many columns the row has.
func (r Row) Columns() int { return len(r.s.results) }

// text returns the bytes of a text column, valid until the next step.
func (s *Stmt) text(i int) []byte {
	tls, col := s.c.tls, int32(i)
	p := lib.Xsqlite3_column_text(tls, s.p, col)
	return view(p, int(lib.Xsqlite3_column_bytes(tls, s.p, col)))
}

// blob returns the bytes of a blob column, valid until the next step.
func (s *Stmt) blob(i int) []byte {
	tls, col := s.c.tls, int32(i)
	p := lib.Xsqlite3_column_blob(tls, s.p, col)
	return view(p, int(lib.Xsqlite3_column_bytes(tls, s.p, col)))
}

// size returns the size of a text or blob in bytes, without fetching it, and 0 for other kinds.
func (s *Stmt) size(i int, kind dbaas.ValueKind) int {
	if kind != dbaas.KindText && kind != dbaas.KindBlob {
		return 0
	}
	return int(lib.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i)))
}

func (s *Stmt) kind(i int) dbaas.ValueKind {
	switch lib.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) {
	case lib.SQLITE_INTEGER:
		return dbaas.KindInteger
	case lib.SQLITE_FLOAT:
		return dbaas.KindFloat
	case lib.SQLITE_TEXT:
		return dbaas.KindText
	case lib.SQLITE_BLOB:
		return dbaas.KindBlob
	default:
		return dbaas.KindNull
	}
}

// value returns a copy of a value.
func (s *Stmt) value(i int) dbaas.Value {
	v, _ := s.borrow(i, math.MaxInt)
	switch v.Kind { //nolint:exhaustive // the others have no memory.
	case dbaas.KindText:
		v.Text = strings.Clone(v.Text)
	case dbaas.KindBlob:
		v.Blob = append([]byte{}, v.Blob...)
	}
	return v
}

// fileColumn is the column of PRAGMA database_list with the path of the file. Clients get an empty text instead.
const fileColumn = 2

// borrow returns a value. Its text or blob is the engine's memory, valid until the next step. If it has more than room
// bytes, it is not fetched and fits is false.
func (s *Stmt) borrow(i, room int) (v dbaas.Value, fits bool) {
	if s.seen.files && i == fileColumn {
		return dbaas.Text(""), true
	}
	tls, col := s.c.tls, int32(i)
	kind := s.kind(i)
	switch kind {
	case dbaas.KindInteger:
		return dbaas.Integer(lib.Xsqlite3_column_int64(tls, s.p, col)), true
	case dbaas.KindFloat:
		return dbaas.Float(lib.Xsqlite3_column_double(tls, s.p, col)), true
	case dbaas.KindNull:
		return dbaas.Null(), true
	case dbaas.KindText, dbaas.KindBlob:
	}
	n := int(lib.Xsqlite3_column_bytes(tls, s.p, col))
	if n > room {
		return dbaas.Null(), false
	}
	if kind == dbaas.KindText {
		return dbaas.Text(asString(view(lib.Xsqlite3_column_text(tls, s.p, col), n))), true
	}
	return dbaas.Blob(view(lib.Xsqlite3_column_blob(tls, s.p, col), n)), true
}
