package rowlog

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// AppendJSON appends a value in the form of the change feed. An INTEGER is a number without a point; a REAL has a point
// or an exponent. A value that JSON has no form for is an object with one member, "blob", "real" or "text".
func AppendJSON(b []byte, v *dbaas.Value) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return strconv.AppendInt(b, v.Int, 10)
	case dbaas.KindFloat:
		return appendReal(b, v.Float)
	case dbaas.KindText:
		if utf8.ValidString(v.Text) {
			return sqljson.AppendText(b, v.Text)
		}
		return appendBase64(append(b, `{"text":"`...), []byte(v.Text))
	case dbaas.KindBlob:
		return appendBase64(append(b, `{"blob":"`...), v.Blob)
	case dbaas.KindNull:
	}
	return append(b, "null"...)
}

func appendBase64(b, v []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(b, v), `"}`...)
}

func appendReal(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f): // SQLite stores NULL instead
		return append(b, "null"...)
	case math.IsInf(f, 1):
		return append(b, `{"real":"Infinity"}`...)
	case math.IsInf(f, -1):
		return append(b, `{"real":"-Infinity"}`...)
	}
	start := len(b)
	if b = strconv.AppendFloat(b, f, 'g', -1, 64); !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}
