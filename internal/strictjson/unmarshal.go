package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth limits the nesting of arrays and objects. The system's own bodies need 4; jsontext allows 10,000.
const maxDepth = 64

// Unmarshal decodes one JSON value into dst, a pointer. Besides what Read refuses, it refuses as CodeInvalid: a key
// that dst has no field for (case matters), a missing field, null, a value of the wrong type, and deep nesting.
//
// A struct field is optional if its tag says omitempty, otherwise required. The rules apply within structs, pointers,
// slices and maps with string keys. Types with their own UnmarshalJSON, such as json.RawMessage, receive the text,
// including null.
func Unmarshal(data []byte, dst any) error {
	if tooDeep(data) {
		return invalid("body: nested deeper than %d", maxDepth)
	}
	err := Read(data, func(r *Reader) error { return named(json.UnmarshalDecode(r.dec, dst, rules)) })
	if err != nil {
		return invalid("body: %s", err.Error())
	}
	return nil
}

// tooDeep reports whether data is nested deeper than maxDepth. Most data has too few brackets for that.
func tooDeep(data []byte) bool {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) <= maxDepth {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	for dec.StackDepth() <= maxDepth {
		if _, err := dec.ReadToken(); err != nil {
			return false // the end of data, or malformed text, which Unmarshal reports
		}
	}
	return true
}

// fieldError is an error about a field of a struct.
type fieldError string

func (e fieldError) Error() string { return string(e) }

var errNull = errors.New("null")

// named returns the error for a value that does not fit, with the name of the value.
func named(err error) error {
	misfit, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	if field, ok := errors.AsType[fieldError](misfit.Err); ok {
		return invalid("%s", field)
	}
	name := "value"
	if misfit.JSONPointer != "" {
		name = strings.TrimPrefix(string(misfit.JSONPointer), "/")
	}
	switch {
	case errors.Is(misfit.Err, errNull):
		return invalid("%.64s is null", name)
	case misfit.GoType.Kind() == reflect.Struct || misfit.GoType.Kind() == reflect.Map:
		return invalid("%.64s is not an object", name)
	case misfit.GoType.Kind() == reflect.Slice:
		return invalid("%.64s is not an array", name)
	default:
		return invalid("%.64s has the wrong type", name)
	}
}

// rules apply to every value that is decoded.
var rules = json.WithUnmarshalers(json.UnmarshalFromFunc(checkValue))

// checkValue refuses null, and decodes objects into structs. It leaves everything else to the package json.
func checkValue(dec *jsontext.Decoder, dst any) error {
	if _, own := dst.(stdjson.Unmarshaler); own {
		return errors.ErrUnsupported
	}
	v := reflect.ValueOf(dst).Elem()
	switch kind := dec.PeekKind(); {
	case kind == jsontext.KindNull:
		return errNull
	case kind == jsontext.KindBeginObject && v.Kind() == reflect.Struct:
		return decodeStruct(dec, v)
	default:
		return errors.ErrUnsupported
	}
}

func decodeStruct(dec *jsontext.Decoder, dst reflect.Value) error {
	fields := dst.Type()
	found := make([]bool, fields.NumField())
	err := (&Reader{dec: dec}).Object(func(key string) error {
		for i := range found {
			if name, _ := fieldName(fields.Field(i)); name == key {
				found[i] = true
				return json.UnmarshalDecode(dec, dst.Field(i).Addr().Interface())
			}
		}
		return fieldError(fmt.Sprintf("unknown field %.64q", key))
	})
	if err != nil {
		return err
	}
	for i, ok := range found {
		if name, required := fieldName(fields.Field(i)); required && !ok {
			return fieldError(fmt.Sprintf("field %q is missing", name))
		}
	}
	return nil
}

// fieldName returns the name of a field in JSON and whether the field is required.
func fieldName(f reflect.StructField) (name string, required bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, !strings.Contains(options, "omitempty")
}
