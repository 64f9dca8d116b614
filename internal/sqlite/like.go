package sqlite

import (
	"bytes"

	lib "modernc.org/sqlite/lib"
)

// pattern holds the special characters of a pattern. Zero means that there is no such character.
type pattern struct {
	many, one, set uint32
	noCase         bool
}

var (
	likePattern = pattern{many: '%', one: '_', noCase: true}
	globPattern = pattern{many: '*', one: '?', set: '['}
)

// maxPattern is the longest pattern, in bytes, as in the engine.
const maxPattern = 50_000

func (p *pattern) wildcards() lib.TcompareInfo {
	w := lib.TcompareInfo{FmatchAll: byte(p.many), FmatchOne: byte(p.one), FmatchSet: byte(p.set)}
	if p.noCase {
		w.FnoCase = 1
	}
	return w
}

// mark marks the function of ctx as LIKE or GLOB for the engine's planner, so that it may use an index instead.
func (p *pattern) mark(ctx uintptr) {
	f := ref[lib.TFuncDef](ref[lib.Tsqlite3_context](ctx).FpFunc)
	f.FfuncFlags |= lib.SQLITE_FUNC_LIKE
	if !p.noCase {
		f.FfuncFlags |= lib.SQLITE_FUNC_CASE
	}
}

// matches is like(PATTERN,TEXT), like(PATTERN,TEXT,ESCAPE) and glob(PATTERN,TEXT).
func matches(c *call) {
	if c.kind(0) == lib.SQLITE_BLOB || c.kind(1) == lib.SQLITE_BLOB {
		lib.Xsqlite3_result_int(c.tls, c.ctx, 0)
		return
	}
	if lib.Xsqlite3_value_bytes(c.tls, c.argv[0]) > maxPattern {
		c.fail("LIKE or GLOB pattern too complex")
		return
	}
	m := matcher{call: c, pattern: *c.like, other: c.like.set}
	if len(c.argv) == 3 {
		escape, ok := c.text(2)
		if !ok {
			return
		}
		if escape = upToZero(escape); len(escape) == 0 || character(escape) != len(escape) {
			c.fail("ESCAPE expression must be a single character")
			return
		}
		m.other, _ = readCharacter(escape)
		if m.other == m.many {
			m.many = 0
		}
		if m.other == m.one {
			m.one = 0
		}
	}
	p, ok := c.text(0)
	text, present := c.text(1)
	if !ok || !present {
		return
	}
	found := m.match(upToZero(p), upToZero(text))
	if m.late {
		return
	}
	result := int32(0)
	if found == matched {
		result = 1
	}
	lib.Xsqlite3_result_int(c.tls, c.ctx, result)
}

// outcome is the result of a match. hopeless means that no other position for an earlier wildcard can match either.
type outcome uint8

const (
	matched outcome = iota
	differs
	hopeless
)

// matcher repeats the engine's own comparison step by step, so that it gives the same answers even for text that is not
// UTF-8.
type matcher struct {
	*call
	pattern
	other uint32 // the escape character, or the first character of a set
	late  bool
}

// read removes the first character from b and returns it, or 0 at the end.
func read(b *[]byte) uint32 {
	if len(*b) == 0 {
		return 0
	}
	r, n := readCharacter(*b)
	*b = (*b)[n:]
	return r
}

func (m *matcher) match(p, text []byte) outcome {
	escaped := -1 // length of the pattern left after an escaped character
	for len(p) > 0 {
		if m.call.late(1) {
			m.late = true
			return hopeless
		}
		want := read(&p)
		if want == m.many {
			return m.rest(p, text)
		}
		if want == m.other && m.other != 0 {
			if m.set != 0 {
				switch contained := m.inSet(&p, &text); {
				case m.late:
					return hopeless
				case !contained:
					return differs
				}
				continue
			}
			if want = read(&p); want == 0 {
				return differs
			}
			escaped = len(p)
		}
		got := read(&text)
		switch {
		case want == got:
		case m.noCase && want < 0x80 && got < 0x80 && lower(want) == lower(got):
		case want == m.one && m.one != 0 && len(p) != escaped && got != 0:
		default:
			return differs
		}
	}
	if len(text) > 0 {
		return differs
	}
	return matched
}

func lower(r uint32) uint32 {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// rest matches the part of the pattern after a wildcard that stands for any number of characters.
func (m *matcher) rest(p, text []byte) outcome {
	at := p
	want := read(&p)
	for want == m.many && m.many != 0 || want == m.one && m.one != 0 && want != 0 {
		if want == m.one && read(&text) == 0 {
			return hopeless
		}
		at = p
		want = read(&p)
	}
	if want == 0 {
		return matched
	}
	if want == m.other {
		if m.set != 0 {
			return m.eachCharacter(at, text)
		}
		if want = read(&p); want == 0 {
			return hopeless
		}
	}
	for {
		if !m.find(want, &text) {
			return hopeless
		}
		if o := m.match(p, text); o != differs {
			return o
		}
	}
}

// eachCharacter tries the pattern, which begins with a set, at each character of text.
func (m *matcher) eachCharacter(p, text []byte) outcome {
	for len(text) > 0 {
		if o := m.match(p, text); o != differs {
			return o
		}
		text = text[character(text):]
	}
	return hopeless
}

// find moves text past the next occurrence of the wanted character. It returns false if there is none or the
// statement's time is over.
func (m *matcher) find(want uint32, text *[]byte) bool {
	if want >= 0x80 {
		for len(*text) > 0 {
			before := len(*text)
			if read(text) == want {
				return true
			}
			if m.call.late(before - len(*text)) {
				m.late = true
				return false
			}
		}
		return false
	}
	other := want // want in the other case, upper or lower
	if m.noCase {
		if want = lower(want); want >= 'a' && want <= 'z' {
			other = want - 'a' + 'A'
		}
	}
	i := indexEither(*text, byte(want), byte(other))
	if i < 0 {
		return false
	}
	*text = (*text)[i+1:]
	if m.call.late(i + 1) {
		m.late = true
		return false
	}
	return true
}

// indexEither returns the first position of either byte.
func indexEither(b []byte, x, y byte) int {
	if x == y {
		return bytes.IndexByte(b, x)
	}
	for i, v := range b {
		if v == x || v == y {
			return i
		}
	}
	return -1
}

// inSet reads one character of text and a set of the pattern whose [ has been read already. It reports whether the set
// contains the character. The answer does not count once m.late is set.
func (m *matcher) inSet(p, text *[]byte) bool {
	before, got := len(*p), read(text)
	if got == 0 {
		return false
	}
	seen, invert, prior := false, false, uint32(0)
	next := read(p)
	if next == '^' {
		invert = true
		next = read(p)
	}
	if next == ']' {
		seen = got == ']'
		next = read(p)
	}
	for next != 0 && next != ']' {
		if next == '-' && len(*p) > 0 && (*p)[0] != ']' && prior > 0 {
			next = read(p)
			seen = seen || got >= prior && got <= next
			prior = 0
		} else {
			seen = seen || got == next
			prior = next
		}
		next = read(p)
	}
	m.late = m.call.late(before - len(*p)) // read from the start again for each character of text
	return next != 0 && seen != invert
}
