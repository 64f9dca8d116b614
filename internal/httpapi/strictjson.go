package httpapi

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"rideshare/internal/dbaas"
)

// maxDepth limits the nesting of arrays and objects in a body. The system's own bodies need 4; the limit keeps a body
// of brackets from exhausting the stack.
const maxDepth = 64

// scanner checks JSON text and finds its parts. encoding/json is too lenient: it accepts duplicate keys, replaces
// broken UTF-8 and lone surrogates, and ignores case in field names.
type scanner struct {
	data []byte
	pos  int
}

// invalid returns the error for a malformed body. Its text is sent to the client.
func invalid(format string, args ...any) error {
	return dbaas.Errorf(dbaas.CodeInvalid, "body: "+format, args...)
}

// checkDocument reports whether data is exactly one JSON value, with unique keys at any depth and text that decoding
// preserves.
func checkDocument(data []byte) error {
	s := &scanner{data: data}
	s.space()
	if s.pos == len(data) {
		return invalid("empty")
	}
	if err := s.value(maxDepth); err != nil {
		return err
	}
	s.space()
	if s.pos != len(data) {
		return invalid("data after the value")
	}
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// value skips one value, which starts at the current position.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth, func(string, []byte) error { return nil })
	case c == '[':
		return s.array(depth, func([]byte) error { return nil })
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return s.malformed()
}

func (s *scanner) malformed() error {
	return invalid("malformed JSON at byte %d", s.pos)
}

// object skips one object and calls each for its members, in order. A duplicate key is an error.
func (s *scanner) object(depth int, each func(key string, raw []byte) error) error {
	var seen keySet
	return s.list(depth, '}', func() error {
		if s.peek() != '"' {
			return s.malformed()
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if !seen.add(key) {
			return invalid("duplicate field %.64q", key)
		}
		s.space()
		if s.peek() != ':' {
			return s.malformed()
		}
		s.pos++
		s.space()
		from := s.pos
		if err := s.value(depth - 1); err != nil {
			return err
		}
		return each(key, s.data[from:s.pos])
	})
}

// array skips one array and calls each for its elements, in order.
func (s *scanner) array(depth int, each func(raw []byte) error) error {
	return s.list(depth, ']', func() error {
		from := s.pos
		if err := s.value(depth - 1); err != nil {
			return err
		}
		return each(s.data[from:s.pos])
	})
}

// list skips an opening bracket, items separated by commas, and the closing bracket.
func (s *scanner) list(depth int, end byte, item func() error) error {
	if depth == 0 {
		return invalid("nested deeper than %d", maxDepth)
	}
	s.pos++
	s.space()
	if s.peek() == end {
		s.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case end:
			s.pos++
			return nil
		default:
			return s.malformed()
		}
	}
}

// text skips a string and returns its value.
func (s *scanner) text() (string, error) {
	from, escaped := s.pos, false
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.unquote(s.data[from:s.pos], escaped)
		case c == '\\':
			escaped = true
			s.pos++ // An escaped character never ends the string.
		case c < ' ':
			return "", s.malformed()
		}
	}
	return "", s.malformed()
}

func (s *scanner) unquote(quoted []byte, escaped bool) (string, error) {
	if !utf8.Valid(quoted) {
		return "", invalid("text is not UTF-8")
	}
	if !escaped {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	if loneSurrogate(quoted) {
		return "", invalid("text has half of a surrogate pair")
	}
	var out string
	if json.Unmarshal(quoted, &out) != nil {
		return "", s.malformed()
	}
	return out, nil
}

// number skips a number: -?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?
func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.malformed()
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.malformed()
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.malformed()
		}
	}
	return nil
}

// digits skips digits and reports whether there was one.
func (s *scanner) digits() bool {
	from := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > from
}
