package sqlbody

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"strings"
	"unsafe"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

// ParseSQL reads the body of the SQL form: an array. Each element is a statement, or an array of a statement and its
// parameters. Parameters are given by position or, in objects, by name:
//
//	["SELECT 1", ["SELECT * FROM t WHERE a=? AND b=?", 1, "x"], ["DELETE FROM t WHERE a=:a", {"a": 1}]]
//
// Parameters are strings, numbers, booleans (0 and 1), null, and arrays of bytes for blobs. A string such as x'68' is a
// blob too. Every error is a *dbaas.Error: CodeTooLarge for more than MaxStatements statements, else CodeInvalid.
// Source: rqlite's HTTP API, "Parameterized Statements".
//
// Empty texts are left out, so the list of statements may be empty. The statements share the body's memory, which must not be modified afterwards.
func ParseSQL(body []byte) ([]dbaas.Statement, error) { return Limits{}.ParseSQL(body) }

// MaxStatements is how many statements a request may have unless Limits says otherwise.
const MaxStatements = 100_000

// Limits says how a body is parsed, and bounds its memory: a short text may become values that take much more memory.
type Limits struct {
	// PlainText means that every string is a text, also one such as x'68'.
	PlainText  bool
	Statements int // of one request; zero means MaxStatements
	// Room is called for each chunk of memory that the parameters need, except the first. bytes is the size of a chunk.
	// An error of Room ends the parsing. If Room is nil, there is no bound.
	Room func(bytes int64) error
}

// ParseSQL is like the function ParseSQL, but with these limits. If there are too many statements, the error is
// CodeTooLarge; if Room returns an error, it is that error.
func (l Limits) ParseSQL(body []byte) ([]dbaas.Statement, error) {
	l.Statements = cmp.Or(l.Statements, MaxStatements)
	p := sqlParser{Limits: l}
	if err := strictjson.Read(body, p.body); err != nil {
		return nil, err
	}
	if p.elements == 0 {
		return nil, invalid("no statements")
	}
	return p.statements, nil
}

// ParseText reads a body that is one statement as plain text, which rqlite accepts with Content-Type text/plain. It
// returns false for a body that is JSON. The statement shares the body's memory.
func ParseText(body []byte) (dbaas.Statement, bool) {
	text := bytes.TrimSpace(body)
	if len(text) == 0 || strings.IndexByte(`[{"`, text[0]) >= 0 {
		return dbaas.Statement{}, false
	}
	return dbaas.Statement{SQL: unsafe.String(unsafe.SliceData(text), len(text))}, true //nolint:gosec // The body is not changed after it has been read.
}

// sqlParser reads a body of the SQL form.
type sqlParser struct {
	Limits
	r          *strictjson.Reader
	elements   int // of the body
	statements []dbaas.Statement
	taken      int64 // bytes since the last call of Room
}

const (
	// statementRoom is the memory of a statement without its text and parameters, in bytes. It is twice the size of a statement,
	// since the list grows by copying.
	statementRoom = 2 * int64(unsafe.Sizeof(dbaas.Statement{}))
	// valueRoom is the memory of a parameter without its text, in bytes. It is twice the size of a value, since the
	// list grows by copying.
	valueRoom = 2 * int64(unsafe.Sizeof(dbaas.Value{}))
	// namedRoom is the same for a named parameter, whose name is also stored to find duplicates. The name's text, which
	// is copied for that, comes on top.
	namedRoom = 4 * int64(unsafe.Sizeof(dbaas.NamedValue{}))
	// roomChunk is how much memory each call of Room asks for, in bytes.
	roomChunk = 1 << 20
)

// take accounts for n bytes. The first chunk is free: a few values take no more memory than any request does.
func (p *sqlParser) take(n int64) error {
	p.taken += n
	for p.Room != nil && p.taken > roomChunk {
		p.taken -= roomChunk
		if err := p.Room(roomChunk); err != nil {
			return err
		}
	}
	return nil
}

func (p *sqlParser) body(r *strictjson.Reader) error {
	if p.r = r; r.Kind() != '[' {
		return r.Wrong("the body is an array of statements")
	}
	return r.Array(func() error {
		if p.elements++; p.elements > p.Statements && r.Kind() != 0 { // malformed text does not count as a statement
			return dbaas.Errorf(dbaas.CodeTooLarge, "a request has at most %d statements: send several requests", p.Statements)
		}
		st, err := p.statement()
		if err == nil {
			err = p.take(statementRoom)
		}
		if st.SQL != "" {
			p.statements = append(p.statements, st)
		}
		return err
	})
}

func (p *sqlParser) statement() (st dbaas.Statement, err error) {
	switch p.r.Kind() {
	case '"':
		st.SQL, err = p.sql()
		return st, err
	case '[':
		return p.parameterized()
	default:
		return st, p.r.Wrong("a statement is a string, or an array of a string and its parameters")
	}
}

// sql reads the text of a statement.
func (p *sqlParser) sql() (string, error) {
	sql, err := p.r.Text()
	if err != nil {
		return "", err
	}
	return sql, checkSQL(sql)
}

func (p *sqlParser) parameterized() (dbaas.Statement, error) {
	var st dbaas.Statement
	first := true
	err := p.r.Array(func() (err error) {
		switch kind := p.r.Kind(); {
		case first && kind != '"':
			return p.r.Wrong("the first element of a statement is its SQL text")
		case first:
			first = false
			st.SQL, err = p.sql()
			return err
		case kind == '{':
			return p.named(&st)
		case st.Named != nil:
			v, err := p.parameter(namedRoom)
			st.Named = append(st.Named, dbaas.NamedValue{Value: v})
			return err
		default:
			v, err := p.parameter(valueRoom)
			st.Args = append(st.Args, v)
			return err
		}
	})
	if err != nil {
		return st, err
	}
	if first {
		return st, invalid("no statements")
	}
	return st, checkNames(st.Named)
}

// named reads an object of named parameters. Parameters by position that came before it are moved to st.Named, without
// a name, so that the order is kept.
func (p *sqlParser) named(st *dbaas.Statement) error {
	for _, v := range st.Args {
		if err := p.take(namedRoom); err != nil {
			return err
		}
		st.Named = append(st.Named, dbaas.NamedValue{Value: v})
	}
	st.Args = nil
	return p.r.Object(func(key string) error {
		name := key
		if name != "" && strings.IndexByte(":@$", name[0]) >= 0 {
			name = name[1:]
		}
		if name == "" {
			return invalid("a parameter's name is empty")
		}
		v, err := p.parameter(namedRoom + 2*int64(len(key)))
		st.Named = append(st.Named, dbaas.NamedValue{Name: name, Value: v})
		return err
	})
}

// parameter reads a value that takes room bytes besides its text; an array of bytes becomes a blob.
func (p *sqlParser) parameter(room int64) (v dbaas.Value, err error) {
	if p.r.Kind() == '[' {
		v, err = blob(p.r)
	} else {
		v, err = scalar(p.r)
	}
	if err != nil {
		return v, err
	}
	if bytes, ok := hexBlob(v); ok && !p.PlainText {
		v, room = dbaas.Blob(bytes), room+int64(len(bytes))
	}
	return v, p.take(room)
}

// hexBlob returns the bytes of a text such as x'68', as rqlite reads it.
func hexBlob(v dbaas.Value) ([]byte, bool) {
	if v.Kind != dbaas.KindText {
		return nil, false
	}
	text := strings.TrimSpace(v.Text)
	if len(text) < 3 || text[0] != 'x' && text[0] != 'X' || text[1] != '\'' || text[len(text)-1] != '\'' {
		return nil, false
	}
	bytes, err := hex.DecodeString(text[2 : len(text)-1])
	return bytes, err == nil
}

// checkNames returns an error if a name is given twice, for example in two objects or with two prefixes.
func checkNames(named []dbaas.NamedValue) error {
	if len(named) < 2 {
		return nil
	}
	names := make([]string, 0, len(named))
	for i := range named {
		if named[i].Name != "" {
			names = append(names, named[i].Name)
		}
	}
	if name, twice := repeated(names); twice {
		return invalid("parameter %q is given twice", name)
	}
	return nil
}

func checkSQL(sql string) error {
	if strings.IndexByte(sql, 0) >= 0 {
		return invalid("a statement holds a zero byte")
	}
	return nil
}
