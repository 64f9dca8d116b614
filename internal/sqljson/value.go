// Package sqljson renders rows as JSON. Reads get their rows from the engine, and the results of writes come from the
// log. Both use this renderer, so that equal rows have equal JSON. The package does not use the engine.
//
// Its functions append to a buffer and have no state. They are safe for concurrent use on different buffers.
package sqljson

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"rideshare/internal/dbaas"
)

// appendValue appends v. A blob becomes base64 text, or an array of numbers if blobArray is set.
func appendValue(b []byte, v *dbaas.Value, blobArray bool) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return strconv.AppendInt(b, v.Int, 10)
	case dbaas.KindFloat:
		return appendFloat(b, v.Float)
	case dbaas.KindText:
		return AppendText(b, v.Text)
	case dbaas.KindBlob:
		return appendBlob(b, v.Blob, blobArray)
	case dbaas.KindNull:
	}
	return append(b, "null"...)
}

// AppendText appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, so that the answer stays valid JSON. HTML is not
// escaped.
func AppendText(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			start = i + 1
		}
		i++
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}

// appendFloat appends f, which is finite, as a JSON number that reads back as exactly f. NaN is null, as in SQLite.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) {
		return append(b, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

// appendBlob appends v as base64 text, or as an array of numbers.
func appendBlob(b, v []byte, asArray bool) []byte {
	if !asArray {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, '"')
	}
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(x), 10)
	}
	return append(b, ']')
}
