package sqlite

import (
	"bytes"

	lib "modernc.org/sqlite/lib"
)

// trim is trim(X,Y), ltrim(X,Y), rtrim(X,Y): X without the characters of Y at its ends.
func trim(c *call, left, right bool) {
	if c.kind(0) == lib.SQLITE_NULL {
		return
	}
	text, ok := c.text(0)
	if !ok {
		return
	}
	list, ok := c.text(1)
	if !ok {
		return
	}
	set := newCharacters(upToZero(list))
	for left && len(text) > 0 {
		n, inTime := set.match(c, text, text[0], bytes.HasPrefix)
		if !inTime {
			return
		}
		if n == 0 {
			break
		}
		text = text[n:]
	}
	for right && len(text) > 0 {
		n, inTime := set.match(c, text, text[len(text)-1], bytes.HasSuffix)
		if !inTime {
			return
		}
		if n == 0 {
			break
		}
		text = text[:len(text)-n]
	}
	c.returnText(text)
}

// characters is a list of characters. If all have one byte, a lookup table is used, otherwise the list in its order.
// The order matters only in text that is not UTF-8, where one character may be the beginning or end of another.
type characters struct {
	single [256]bool
	others []byte // the whole list, if a character in it has more than one byte
}

func newCharacters(list []byte) *characters {
	set := &characters{}
	for b := list; len(b) > 0; {
		n := character(b)
		if n == 1 {
			set.single[b[0]] = true
		} else {
			set.others = list
		}
		b = b[n:]
	}
	return set
}

// character returns the length of the first character of b, by the engine's rules for skipping a character.
func character(b []byte) int {
	n := 1
	if b[0] >= 0xc0 {
		for n < len(b) && inside(b[n]) {
			n++
		}
	}
	return n
}

// match returns the length of the first character in the list that is at one end of text, or 0. at checks that end of
// text, and end is the byte there. match returns false if the statement's time is over.
func (set *characters) match(c *call, text []byte, end byte, at func(text, part []byte) bool) (int, bool) {
	if set.others == nil {
		if set.single[end] {
			return 1, !c.late(1)
		}
		return 0, true
	}
	for b := set.others; len(b) > 0; {
		n := character(b)
		if c.late(n) {
			return 0, false
		}
		if at(text, b[:n]) {
			return n, true
		}
		b = b[n:]
	}
	return 0, true
}

// unhex is unhex(X,Y): the bytes that X encodes in hexadecimal. Characters of Y may stand between two bytes.
func unhex(c *call) {
	text, ok := c.text(0)
	if !ok {
		return
	}
	between, ok := c.text(1)
	if !ok {
		return
	}
	text = upToZero(text)
	p, ok := c.alloc(len(text)/2 + 1)
	if !ok {
		return
	}
	out := view(p, len(text)/2+1)[:0]
	for len(text) > 0 {
		high, low := digit(text[0]), -1
		if high < 0 {
			r, n := readCharacter(text)
			found, inTime := c.contains(between, r)
			if !inTime || !found {
				lib.Xsqlite3_free(c.tls, p)
				return
			}
			text = text[n:]
			continue
		}
		if len(text) > 1 {
			low = digit(text[1])
		}
		if low < 0 {
			lib.Xsqlite3_free(c.tls, p)
			return
		}
		out = append(out, byte(high<<4|low))
		text = text[2:]
	}
	lib.Xsqlite3_result_blob(c.tls, c.ctx, p, int32(len(out)), freeFunction)
}

func (c *call) contains(list []byte, wanted uint32) (found, inTime bool) {
	for len(list) > 0 {
		r, n := readCharacter(list)
		if c.late(n) {
			return false, false
		}
		if r == wanted {
			return true, true
		}
		list = list[n:]
	}
	return false, true
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	default:
		return -1
	}
}

// readCharacter returns the first character of b and its length. It follows the engine even where b is not UTF-8.
func readCharacter(b []byte) (uint32, int) {
	r := uint32(b[0])
	if r < 0xc0 {
		return r, 1
	}
	n := character(b)
	switch {
	case r < 0xe0:
		r &= 0x1f
	case r < 0xf0:
		r &= 0x0f
	case r < 0xf8:
		r &= 0x07
	case r < 0xfc:
		r &= 0x03
	case r < 0xfe:
		r &= 0x01
	default:
		r = 0
	}
	for _, next := range b[1:n] {
		r = r<<6 + uint32(next&0x3f)
	}
	if r < 0x80 || r&0xfffff800 == 0xd800 {
		r = 0xfffd
	}
	return r, n
}
