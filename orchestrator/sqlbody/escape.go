package sqlbody

import (
	"unicode/utf16"
	"unicode/utf8"
)

// escaped reads the rest of a string that starts at start; the scanner stands at a backslash.
func (s *scanner) escaped(start int) (string, error) {
	out := append(make([]byte, 0, s.atMost(start)), s.b[start:s.at]...)
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			if !utf8.Valid(out) {
				return "", invalid("invalid UTF-8 in a string")
			}
			return shared(out), nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", s.malformed()
		default:
			out = append(out, c)
			s.at++
		}
	}
	return "", s.malformed()
}

// escape reads one escape sequence, or two for a surrogate pair.
func (s *scanner) escape() (rune, error) {
	if s.at+1 >= len(s.b) {
		return 0, s.malformed()
	}
	c := s.b[s.at+1]
	if c == 'u' {
		return s.unicode()
	}
	s.at += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	default:
		return 0, s.malformed()
	}
}

func (s *scanner) unicode() (rune, error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if s.at+1 >= len(s.b) || s.b[s.at] != '\\' || s.b[s.at+1] != 'u' {
		return 0, invalid("lone surrogate in a string")
	}
	low, err := s.hex4()
	if err != nil {
		return 0, err
	}
	pair := utf16.DecodeRune(r, low)
	if pair == utf8.RuneError {
		return 0, invalid("lone surrogate in a string")
	}
	return pair, nil
}

// hex4 reads "\uXXXX".
func (s *scanner) hex4() (rune, error) {
	if s.at+6 > len(s.b) {
		return 0, s.malformed()
	}
	var r rune
	for _, c := range s.b[s.at+2 : s.at+6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.malformed()
		}
	}
	s.at += 6
	return r, nil
}

// atMost returns an upper bound for the length of the string that starts at start: its encoded length, up to the next
// unescaped quote.
func (s *scanner) atMost(start int) int {
	end := s.at
	for end < len(s.b) && s.b[end] != '"' {
		if s.b[end] == '\\' {
			end++
		}
		end++
	}
	return min(end, len(s.b)) - start
}
