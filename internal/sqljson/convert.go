package sqljson

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"rideshare/internal/dbaas"
)

// conversion says how the SQL form shows the values of a column. It follows from the column's declared type, as in
// rqlite. The structured form shows values as they are stored.
type conversion uint8

const (
	asStored conversion = iota
	asTime
	asBoolean
	asText
)

// conversions returns the conversion of each column; nil if all values are shown as they are stored.
func conversions(columns Columns, rows Rows) []conversion {
	var all []conversion
	for i := range columns {
		as := conversionOf(rows.Declared(i))
		if as != asStored && all == nil {
			all = make([]conversion, len(columns))
		}
		if all != nil {
			all[i] = as
		}
	}
	return all
}

func conversionOf(declared string) conversion {
	switch declared {
	case "date", "datetime", "timestamp":
		return asTime
	case "boolean":
		return asBoolean
	case "text", "json", "clob":
		return asText
	}
	for _, prefix := range [...]string{"varchar", "nchar", "nvarchar"} {
		if strings.HasPrefix(declared, prefix) {
			return asText
		}
	}
	return asStored
}

// append appends v, converted.
func (as conversion) append(b []byte, v *dbaas.Value, blobArray bool) []byte {
	switch {
	case as == asBoolean && v.Kind == dbaas.KindInteger:
		if v.Int > 0 {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case as == asTime:
		if text, ok := timeOf(v); ok {
			return AppendText(b, text)
		}
	case as == asText && v.Kind == dbaas.KindBlob && utf8.Valid(v.Blob):
		return AppendText(b, string(v.Blob))
	}
	return appendValue(b, v, blobArray)
}

// maxSeconds is the largest magnitude of an integer that means a time in seconds. Larger magnitudes mean milliseconds.
// Source: go-sqlite3, which rqlite uses.
const maxSeconds = 1_000_000_000_000

// timeOf returns the RFC 3339 form of a time that is stored as text or as an integer. ok is false for values that are
// shown as they are stored.
func timeOf(v *dbaas.Value) (text string, ok bool) {
	var t time.Time
	switch v.Kind { //nolint:exhaustive // the others are no times.
	case dbaas.KindText:
		if t, ok = parseTime(v.Text); !ok {
			return "", false
		}
	case dbaas.KindInteger:
		if t = time.UnixMilli(v.Int); -maxSeconds <= v.Int && v.Int <= maxSeconds {
			t = time.Unix(v.Int, 0)
		}
		t = t.UTC()
	default:
		return "", false
	}
	if y := t.Year(); y < 0 || y > 9999 {
		return "", false
	}
	return t.Format(time.RFC3339Nano), true
}

var timeText = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$`)

// parseTime parses YYYY-MM-DD, optionally followed by a time of day, optionally with an offset.
func parseTime(s string) (time.Time, bool) {
	part := timeText.FindStringSubmatch(s)
	if part == nil {
		return time.Time{}, false
	}
	orElse := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	whole := part[1] + "T" + orElse(part[2], "00:00") + orElse(part[3], ":00") + orElse(part[4], "Z")
	t, err := time.Parse(time.RFC3339Nano, whole)
	return t, err == nil
}
