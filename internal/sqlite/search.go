package sqlite

import (
	"bytes"

	lib "modernc.org/sqlite/lib"
)

// probeBytes is the length of the prefix that index searches for first. Only where it matches is the whole of a long
// text compared. Searching for so few bytes is a single pass.
const probeBytes = 32

// index returns the first position of sub in b at or after from, or -1. It returns false if the statement's time is
// over.
func (c *call) index(b, sub []byte, from int) (int, bool) {
	probe := sub[:min(len(sub), probeBytes)]
	for from <= len(b)-len(sub) {
		to := min(len(b), from+workEvery+len(probe)-1)
		n := bytes.Index(b[from:to], probe)
		if n < 0 {
			if c.late(to - from) {
				return 0, false
			}
			from = to - len(probe) + 1
			continue
		}
		from += n
		if len(b)-from < len(sub) {
			break
		}
		if len(probe) == len(sub) || bytes.Equal(b[from+len(probe):from+len(sub)], sub[len(probe):]) {
			return from, !c.late(n + len(sub))
		}
		if c.late(n + len(sub)) {
			return 0, false
		}
		from++
	}
	return -1, true
}

// instr is instr(X,Y): the position of the first Y in X, counted in characters, or in bytes if both are blobs.
func instr(c *call) {
	x, y := c.kind(0), c.kind(1)
	if x == lib.SQLITE_NULL || y == lib.SQLITE_NULL {
		return
	}
	var hay, needle []byte
	switch {
	case x == lib.SQLITE_BLOB && y == lib.SQLITE_BLOB:
		hay, needle = c.blob(0), c.blob(1)
	case x != lib.SQLITE_BLOB && y != lib.SQLITE_BLOB:
		hay, _ = c.text(0)
		needle, _ = c.text(1)
	default: // the arguments are copied: converting a blob to text in place would change it for later readers.
		argv := c.argv
		c.argv = []uintptr{lib.Xsqlite3_value_dup(c.tls, argv[0]), lib.Xsqlite3_value_dup(c.tls, argv[1])}
		defer func(copies []uintptr) {
			lib.Xsqlite3_value_free(c.tls, copies[0])
			lib.Xsqlite3_value_free(c.tls, copies[1])
		}(c.argv)
		if c.argv[0] == 0 || c.argv[1] == 0 {
			lib.Xsqlite3_result_error_nomem(c.tls, c.ctx)
			return
		}
		hay, _ = c.text(0)
		needle, _ = c.text(1)
		c.argv = argv
	}
	if n, ok := c.position(hay, needle, x == lib.SQLITE_BLOB && y == lib.SQLITE_BLOB); ok {
		lib.Xsqlite3_result_int(c.tls, c.ctx, int32(n))
	}
}

// position returns the position of needle in hay, counted from 1, or 0 if it is absent. In texts a match must begin at
// the start of a character.
func (c *call) position(hay, needle []byte, binary bool) (int, bool) {
	if len(needle) == 0 {
		return 1, true
	}
	if !binary && inside(needle[0]) {
		if bytes.HasPrefix(hay, needle) {
			return 1, true
		}
		return 0, true
	}
	i, ok := c.index(hay, needle, 0)
	if !ok || i < 0 {
		return 0, ok
	}
	n := i + 1
	if !binary {
		for _, b := range hay[1:max(1, i)] {
			if inside(b) {
				n--
			}
		}
	}
	return n, true
}

// inside reports whether b is a continuation byte of a UTF-8 character.
func inside(b byte) bool { return b&0xc0 == 0x80 }

func (c *call) blob(i int) []byte {
	p := lib.Xsqlite3_value_blob(c.tls, c.argv[i])
	return view(p, int(lib.Xsqlite3_value_bytes(c.tls, c.argv[i])))
}

// count returns how often old occurs in text. inTime is false if the statement's time is over.
func (c *call) count(text, old []byte) (found int, inTime bool) {
	for at := 0; ; found++ {
		i, inTime := c.index(text, old, at)
		if !inTime || i < 0 {
			return found, inTime
		}
		at = i + len(old)
	}
}

// replace is replace(X,Y,Z): X with each Y replaced by Z.
func replace(c *call) {
	text, ok := c.text(0)
	if !ok {
		return
	}
	old, ok := c.text(1)
	if !ok {
		return
	}
	if len(old) == 0 || old[0] == 0 {
		c.returnText(text)
		return
	}
	with, ok := c.text(2)
	if !ok {
		return
	}
	found, inTime := c.count(text, old)
	if !inTime {
		return
	}
	size := len(text) + found*(len(with)-len(old))
	p, ok := c.alloc(size)
	if !ok {
		return
	}
	out := view(p, size+1)[:0]
	for at := 0; ; found-- {
		i := -1
		if found > 0 {
			var inTime bool
			if i, inTime = c.index(text, old, at); !inTime {
				lib.Xsqlite3_free(c.tls, p)
				return
			}
		}
		if i < 0 {
			out = append(out, text[at:]...)
			break
		}
		out = append(append(out, text[at:i]...), with...)
		at = i + len(old)
	}
	_ = append(out, 0)
	lib.Xsqlite3_result_text(c.tls, c.ctx, p, int32(size), freeFunction)
}

// freeFunction frees the result of a function.
var freeFunction = callback(lib.Xsqlite3_free)
