package sqlbody

import (
	"bytes"
	"strings"

	"rideshare/internal/dbaas"
)

// ParseSQL reads the body of the SQL form: an array. Each element is a statement, or an array of a statement and its
// parameters. Parameters are given by position or, in one object, by name:
//
//	["SELECT 1", ["SELECT * FROM t WHERE a=? AND b=?", 1, "x"], ["DELETE FROM t WHERE a=:a", {"a": 1}]]
//
// Parameters are strings, numbers, booleans (0 and 1), null, and arrays of bytes
// for blobs. Every error is a *dbaas.Error with CodeInvalid. Source: rqlite's
// HTTP API, "Parameterized Statements".
//
// The statements share the body's memory, which must not be modified afterwards.
func ParseSQL(body []byte) ([]dbaas.Statement, error) { return Limits{}.ParseSQL(body) }

// MaxStatements is how many statements a request may have unless Limits says otherwise.
const MaxStatements = 100_000

// Limits bounds the memory of a parsed body. A short text may become a value that takes much more.
type Limits struct {
	Statements int // of one request; zero means MaxStatements
	// Room is called before the parameters take bytes more memory than the body; its error ends the parsing. nil: no
	// bound.
	Room func(bytes int64) error
}

// ParseSQL is ParseSQL within limits. If a limit is exceeded, the error is CodeTooLarge, or that of Room.
func (l Limits) ParseSQL(body []byte) ([]dbaas.Statement, error) {
	if l.Statements == 0 {
		l.Statements = MaxStatements
	}
	s := scanner{b: body, room: l.Room}
	if s.peek() != '[' {
		return nil, invalid("the body is an array of statements")
	}
	var statements []dbaas.Statement
	err := s.array(func() error {
		if len(statements) == l.Statements {
			return dbaas.Errorf(dbaas.CodeTooLarge, "a request has at most %d statements: send several requests", l.Statements)
		}
		st, err := s.statement()
		statements = append(statements, st)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = s.end(); err != nil {
		return nil, err
	}
	if len(statements) == 0 {
		return nil, invalid("no statements")
	}
	return statements, nil
}

// ParseText reads a body that is one statement as plain text, which rqlite accepts with Content-Type text/plain. It
// returns false for a body that is JSON. The statement shares the body's memory.
func ParseText(body []byte) (dbaas.Statement, bool) {
	text := bytes.TrimSpace(body)
	if len(text) == 0 || strings.IndexByte(`[{"`, text[0]) >= 0 {
		return dbaas.Statement{}, false
	}
	return dbaas.Statement{SQL: shared(text)}, true
}

func (s *scanner) statement() (dbaas.Statement, error) {
	switch s.peek() {
	case '"':
		sql, err := s.text()
		if err != nil {
			return dbaas.Statement{}, err
		}
		return dbaas.Statement{SQL: sql}, checkSQL(sql)
	case '[':
		return s.parameterized()
	default:
		return dbaas.Statement{}, invalid("a statement is a string, or an array of a string and its parameters")
	}
}

func (s *scanner) parameterized() (dbaas.Statement, error) {
	var st dbaas.Statement
	first := true
	var seen keySet
	err := s.array(func() (err error) {
		switch {
		case first:
			first = false
			if s.peek() != '"' {
				return invalid("the first element of a statement is its SQL text")
			}
			if st.SQL, err = s.text(); err != nil {
				return err
			}
			return checkSQL(st.SQL)
		case s.peek() == '{':
			return s.named(&st, &seen)
		default:
			v, err := s.parameter()
			if err == nil {
				err = s.take(valueRoom)
			}
			st.Args = append(st.Args, v)
			return err
		}
	})
	if err == nil && first {
		err = invalid("no statements")
	}
	if err == nil && len(st.Args) > 0 && len(st.Named) > 0 {
		err = invalid("a statement has parameters by position or by name, not both")
	}
	return st, err
}

func (s *scanner) named(st *dbaas.Statement, seen *keySet) error {
	return s.object(func(key string) error {
		name := key
		if name != "" && strings.IndexByte(":@$", name[0]) >= 0 {
			name = name[1:]
		}
		if name == "" {
			return invalid("a parameter's name is empty")
		}
		if !seen.add(name) {
			return invalid("parameter %q is given twice", name)
		}
		v, err := s.parameter()
		if err == nil {
			err = s.take(namedRoom)
		}
		st.Named = append(st.Named, dbaas.NamedValue{Name: name, Value: v})
		return err
	})
}

// parameter reads a value; an array of bytes becomes a blob.
func (s *scanner) parameter() (dbaas.Value, error) {
	if s.peek() != '[' {
		return s.scalar()
	}
	blob := []byte{}
	err := s.array(func() error {
		if c := s.peek(); c < '0' || c > '9' {
			return invalid("a blob is an array of numbers from 0 to 255")
		}
		v, err := s.number()
		if err != nil {
			return err
		}
		if v.Kind != dbaas.KindInteger || v.Int > 255 {
			return invalid("a blob is an array of numbers from 0 to 255")
		}
		blob = append(blob, byte(v.Int)) //nolint:gosec // bounded on the line above.
		return nil
	})
	return dbaas.Blob(blob), err
}

func checkSQL(sql string) error {
	if strings.TrimSpace(sql) == "" {
		return invalid("a statement is empty")
	}
	if strings.IndexByte(sql, 0) >= 0 {
		return invalid("a statement holds a zero byte")
	}
	return nil
}
