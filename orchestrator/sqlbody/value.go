package sqlbody

import (
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

// scalar reads a string, number, boolean or null. Booleans become 0 and 1, as SQLite has no booleans.
func scalar(r *strictjson.Reader) (dbaas.Value, error) {
	switch r.Kind() {
	case '"':
		text, err := r.Text()
		return dbaas.Text(text), err
	case '{', '[':
		return dbaas.Value{}, invalid("a value is a string, number, boolean or null, not an object or array")
	}
	literal, err := r.Literal()
	if err != nil {
		return dbaas.Value{}, err
	}
	switch literal {
	case "null":
		return dbaas.Null(), nil
	case "true":
		return dbaas.Integer(1), nil
	case "false":
		return dbaas.Integer(0), nil
	default:
		return number(literal)
	}
}

// number returns the value of a JSON number. An integer that fits into 64 bits stays exact; any other number becomes a
// float. Numbers beyond the range of floats are rejected: infinity is not valid JSON.
func number(literal string) (dbaas.Value, error) {
	if !strings.ContainsAny(literal, ".eE") { // ParseInt would reject these too, but allocates its error
		if v, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return dbaas.Integer(v), nil
		}
	}
	v, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return dbaas.Value{}, invalid("number out of range")
	}
	return dbaas.Float(v), nil
}

// blob reads an array of bytes.
func blob(r *strictjson.Reader) (dbaas.Value, error) {
	const want = "a blob is an array of numbers from 0 to 255"
	bytes := []byte{}
	err := r.Array(func() error {
		if r.Kind() != '0' {
			return r.Wrong(want)
		}
		literal, err := r.Literal()
		if err != nil {
			return err
		}
		b, err := strconv.ParseUint(literal, 10, 8)
		if err != nil {
			return invalid(want)
		}
		bytes = append(bytes, byte(b))
		return nil
	})
	return dbaas.Blob(bytes), err
}

// Up to fewNames names are compared with each other; more are sorted first.
const fewNames = 16

// repeated returns a name that is in names more than once.
func repeated(names []string) (string, bool) {
	if len(names) <= fewNames {
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				return name, true
			}
		}
		return "", false
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i, name := range sorted[1:] {
		if name == sorted[i] {
			return name, true
		}
	}
	return "", false
}
