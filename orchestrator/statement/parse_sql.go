package statement

import (
	"bytes"
	"strings"

	"rideshare/internal/dbaas"
)

// ParseSQL reads the body of the SQL form: an array whose elements are a
// statement, or an array of a statement and its parameters, by position or, in
// one object, by name:
//
//	["SELECT 1", ["SELECT * FROM t WHERE a=? AND b=?", 1, "x"], ["DELETE FROM t WHERE a=:a", {"a": 1}]]
//
// Parameters are strings, numbers, booleans (0 and 1), null, and arrays of bytes
// for blobs. Every error is a *dbaas.Error with CodeInvalid. Source: rqlite's
// HTTP API, "Parameterized Statements".
func ParseSQL(body []byte) ([]dbaas.Statement, error) {
	s := scanner{b: body}
	if s.peek() != '[' {
		return nil, invalid("the body is an array of statements")
	}
	var statements []dbaas.Statement
	err := s.array(func() error {
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

// ParseText reads a body that is one statement as plain text, which rqlite takes
// with Content-Type text/plain. It reports false for a body that is JSON.
func ParseText(body []byte) (dbaas.Statement, bool) {
	text := bytes.TrimSpace(body)
	if len(text) == 0 || strings.IndexByte(`[{"`, text[0]) >= 0 {
		return dbaas.Statement{}, false
	}
	return dbaas.Statement{SQL: string(text)}, true
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
		st.Named = append(st.Named, dbaas.NamedValue{Name: name, Value: v})
		return err
	})
}

// parameter reads a value; an array of bytes is a blob.
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

// OnlySelects reports whether every statement is surely a read, by its first
// word. One that begins with WITH or a comment may be a write and is taken for one.
func OnlySelects(statements []dbaas.Statement) bool {
	for i := range statements {
		if !isSelect(statements[i].SQL) {
			return false
		}
	}
	return true
}

func isSelect(sql string) bool {
	sql = strings.TrimLeft(sql, " \t\r\n")
	const word = "SELECT"
	if len(sql) <= len(word) || !strings.EqualFold(sql[:len(word)], word) {
		return false
	}
	switch c := sql[len(word)]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '$', c >= 0x80:
		return false
	default:
		return true
	}
}
