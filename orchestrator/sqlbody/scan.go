package sqlbody

import (
	"slices"
	"unicode/utf8"
	"unsafe"

	"rideshare/internal/dbaas"
)

// scanner parses JSON strictly and in one pass, without an intermediate tree. Duplicate keys, trailing data, invalid
// UTF-8 and lone surrogates are errors, and integers keep all their 64 bits. encoding/json is lax on all of these.
type scanner struct {
	b     []byte
	at    int
	depth int
	room  func(bytes int64) error // requests memory, chunk by chunk; nil: unlimited
	taken int64                   // bytes since the last call of room
}

const (
	// valueRoom is the memory of a parameter besides its text, in bytes, in a list that grows by copying.
	valueRoom = 2 * int64(unsafe.Sizeof(dbaas.Value{}))
	// namedRoom is the same for a named parameter, whose name is also stored to find duplicates.
	namedRoom = 4 * int64(unsafe.Sizeof(dbaas.NamedValue{}))
	// roomChunk is how much memory is requested per call of room, in bytes.
	roomChunk = 1 << 20
)

// take accounts for n bytes. The first chunk is free: a few values take no more memory than any request does.
func (s *scanner) take(n int64) error {
	if s.taken += n; s.room == nil || s.taken <= roomChunk {
		return nil
	}
	s.taken -= roomChunk
	return s.room(roomChunk)
}

// shared returns b as a string without copying, so that a body of 64 MiB is not held twice.
func shared(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // The body is not changed after it has been read.
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) malformed() error { return invalid("malformed JSON at byte %d", s.at) }

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.peek(); s.at < len(s.b) {
		return invalid("data after the JSON value, at byte %d", s.at)
	}
	return nil
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.malformed()
	}
	s.at++
	return nil
}

func (s *scanner) enter(c byte) error {
	if s.depth++; s.depth > MaxDepth {
		return invalid("JSON nested deeper than %d levels", MaxDepth)
	}
	return s.expect(c)
}

// object calls field for each key, with the scanner before the key's value. A duplicate key is an error.
func (s *scanner) object(field func(key string) error) error {
	if err := s.enter('{'); err != nil {
		return err
	}
	defer func() { s.depth-- }()
	if s.peek() == '}' {
		s.at++
		return nil
	}
	var seen keySet
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if !seen.add(key) {
			return invalid("duplicate key %q", key)
		}
		if err = s.expect(':'); err != nil {
			return err
		}
		if err = field(key); err != nil {
			return err
		}
		var done bool
		if done, err = s.next('}'); done || err != nil {
			return err
		}
	}
}

// array calls item for each element, with the scanner before it.
func (s *scanner) array(item func() error) error {
	if err := s.enter('['); err != nil {
		return err
	}
	defer func() { s.depth-- }()
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next reads the comma between two elements, or the end.
func (s *scanner) next(end byte) (done bool, err error) {
	switch s.peek() {
	case ',':
		s.at++
		return false, nil
	case end:
		s.at++
		return true, nil
	default:
		return false, s.malformed()
	}
}

// keySet finds duplicate keys: by comparison while there are few, which allocates nothing, then with a map, so that a
// body of a million keys does not take quadratic time.
type keySet struct {
	few  [16]string
	n    int // number of keys in few
	many map[string]struct{}
}

func (k *keySet) add(key string) bool {
	if k.many == nil {
		if slices.Contains(k.few[:k.n], key) {
			return false
		}
		if k.n < len(k.few) {
			k.few[k.n] = key
			k.n++
			return true
		}
		k.many = make(map[string]struct{}, 4*len(k.few))
		for _, old := range k.few {
			k.many[old] = struct{}{}
		}
	}
	if _, ok := k.many[key]; ok {
		return false
	}
	k.many[key] = struct{}{}
	return true
}

// scalar reads a string, number, boolean or null. Booleans become 0 and 1, as SQLite has no booleans.
func (s *scanner) scalar() (dbaas.Value, error) {
	switch c := s.peek(); {
	case c == '"':
		text, err := s.text()
		return dbaas.Text(text), err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case s.word("null"):
		return dbaas.Null(), nil
	case s.word("true"):
		return dbaas.Integer(1), nil
	case s.word("false"):
		return dbaas.Integer(0), nil
	case c == '{' || c == '[':
		return dbaas.Value{}, invalid("a value is a string, number, boolean or null, not an object or array")
	default:
		return dbaas.Value{}, s.malformed()
	}
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.at < len(w) || string(s.b[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// text reads a string.
func (s *scanner) text() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	start := s.at
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case c == '"':
			raw := s.b[start:s.at]
			if !utf8.Valid(raw) {
				return "", invalid("invalid UTF-8 in a string")
			}
			s.at++
			return shared(raw), nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", s.malformed()
		default:
			s.at++
		}
	}
	return "", s.malformed()
}
