package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
)

// UnmarshalStrict decodes one JSON value into dst, a pointer. It refuses as CodeInvalid: malformed text, text that is
// not UTF-8, data after the value, a duplicate key (at any depth), a key that dst has no field for (case matters), a
// missing field, null, and a value of the wrong type.
//
// A struct field is optional if its tag says omitempty, otherwise required. The rules apply within structs, pointers,
// slices and maps with string keys. Other types are decoded by encoding/json, so that json.RawMessage and types with
// their own UnmarshalJSON receive the text, including null.
func UnmarshalStrict(data []byte, dst any) error {
	if err := checkDocument(data); err != nil {
		return err
	}
	s := &scanner{data: data}
	s.space()
	from := s.pos
	if err := s.value(maxDepth); err != nil {
		return err
	}
	return bind(data[from:s.pos], reflect.ValueOf(dst).Elem(), "value")
}

// bind decodes raw, which checkDocument has accepted, into dst. Error messages use name for dst.
func bind(raw []byte, dst reflect.Value, name string) error {
	if _, own := reflect.TypeAssert[json.Unmarshaler](dst.Addr()); own {
		return bindLeaf(raw, dst, name)
	}
	if string(raw) == "null" {
		return invalid("%.64s is null", name)
	}
	switch dst.Kind() { //nolint:exhaustive // all other kinds are left to encoding/json.
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		return bind(raw, dst.Elem(), name)
	case reflect.Struct:
		return bindStruct(raw, dst, name)
	case reflect.Slice:
		return bindSlice(raw, dst, name)
	case reflect.Map:
		return bindMap(raw, dst, name)
	default:
		return bindLeaf(raw, dst, name)
	}
}

func bindLeaf(raw []byte, dst reflect.Value, name string) error {
	if json.Unmarshal(raw, dst.Addr().Interface()) != nil {
		return invalid("%.64s has the wrong type", name)
	}
	return nil
}

func bindStruct(raw []byte, dst reflect.Value, name string) error {
	if raw[0] != '{' {
		return invalid("%.64s is not an object", name)
	}
	fields := dst.Type()
	found := make([]bool, fields.NumField())
	err := (&scanner{data: raw}).object(maxDepth, func(key string, member []byte) error {
		for i := range found {
			if tag, _ := fieldName(fields.Field(i)); tag == key {
				found[i] = true
				return bind(member, dst.Field(i), key)
			}
		}
		return invalid("unknown field %.64q", key)
	})
	if err != nil {
		return err
	}
	for i, ok := range found {
		if tag, required := fieldName(fields.Field(i)); required && !ok {
			return invalid("field %q is missing", tag)
		}
	}
	return nil
}

// fieldName returns the name of a field in JSON and whether the field is required.
func fieldName(f reflect.StructField) (name string, required bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, !strings.Contains(options, "omitempty")
}

func bindSlice(raw []byte, dst reflect.Value, name string) error {
	if raw[0] != '[' {
		return invalid("%.64s is not an array", name)
	}
	out := reflect.MakeSlice(dst.Type(), 0, 0)
	err := (&scanner{data: raw}).array(maxDepth, func(item []byte) error {
		element := reflect.New(dst.Type().Elem()).Elem()
		if err := bind(item, element, name); err != nil {
			return err
		}
		out = reflect.Append(out, element)
		return nil
	})
	dst.Set(out)
	return err
}

func bindMap(raw []byte, dst reflect.Value, name string) error {
	if raw[0] != '{' {
		return invalid("%.64s is not an object", name)
	}
	out := reflect.MakeMap(dst.Type())
	err := (&scanner{data: raw}).object(maxDepth, func(key string, member []byte) error {
		element := reflect.New(dst.Type().Elem()).Elem()
		if err := bind(member, element, key); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(key).Convert(dst.Type().Key()), element)
		return nil
	})
	dst.Set(out)
	return err
}
