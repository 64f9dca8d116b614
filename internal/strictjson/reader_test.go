package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

// numbers reads an object of arrays of numbers.
func numbers(r *strictjson.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object of arrays")
	}
	return r.Object(func(string) error {
		if r.Kind() != '[' {
			return r.Wrong("an array of numbers")
		}
		return r.Array(func() error {
			if r.Kind() != '0' {
				return r.Wrong("only numbers")
			}
			_, err := r.Literal()
			return err
		})
	})
}

// What is malformed is CodeInvalid, wherever it stands. The message says where, and what is accepted there.
func TestRead_MalformedText_IsInvalid(t *testing.T) {
	for text, says := range map[string]string{
		``: "empty; an object", ` `: "empty; an object", `[]`: "an object", `nul`: "an object", "\ufeff{}": "at byte 0", `{`: "EOF", `}`: "at byte 0",
		`{"a"}`: "expecting ':'", `{"a" []}`: "expecting ':'", `{"a":}`: "array of numbers", `{"a":[]]`: "at byte 7", `{"a":[}}`: "only numbers",
		`{"a":[1}`: "only numbers", `{"a":[1,]}`: "only numbers", `{"a":[1 2]}`: "only numbers", `{"a":[1`: "EOF", `{"a":[1,`: "EOF", `{"a":[,1]}`: "only numbers",
		`{"a":[],}`: "at byte 7", `{"a":[] "b":[]}`: "expecting ','", `{"a":[],,"b":[]}`: "at byte 8", `{1:[]}`: "string", `{a:[]}`: "at byte 1",
		`{"a":[01]}`: "at byte 7", `{"a":[1.]}`: "at byte 8", `{"a":[-]}`: "at byte 7", `{"a":[1e]}`: "at byte 8", `{"a":[+1]}`: "only numbers",
		`{"a":[],"a":[]}`: `duplicate key "a"`, `{"a":[],"\u0061":[]}`: `duplicate key "a"`, "{\"\xff\":[]}": "UTF-8", `{"\ud800":[]}`: "surrogate", `{"\x":[]}`: "escape",
		"{\"\n\":[]}": "character", `{}x`: "after", `{} {}`: "after", `{}]`: "after", "{}\x00": "after", `{},`: "after",
	} {
		err := strictjson.Read([]byte(text), numbers)
		if dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("%q: got %v, want CodeInvalid", text, err)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got message %q, want it to say %q", text, err, says)
		}
	}
}

// An error of the caller comes back as it is.
func TestRead_ErrorOfTheCaller_IsReturned(t *testing.T) {
	want := errors.New("no room")
	err := strictjson.Read([]byte(`{"a":1}`), func(r *strictjson.Reader) error {
		return r.Object(func(string) error { return want })
	})
	if err != want { //nolint:errorlint // as it is
		t.Errorf("got %v, want %v", err, want)
	}
}

// Readers are used again; the texts that they returned stay what they are.
func TestRead_Again_TextsStay(t *testing.T) {
	read := func(data string) (key, value string) {
		err := strictjson.Read([]byte(data), func(r *strictjson.Reader) error {
			return r.Object(func(k string) (err error) {
				key = k
				value, err = r.Text()
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return key, value
	}
	key, value := read(`{"first":"one \u00e9"}`)
	for range 100 {
		read(`{"other":"xxxxxxxxxxxxxxxxxxxxx"}`)
	}
	if key != "first" || value != "one é" {
		t.Errorf("got %q and %q, want them unchanged", key, value)
	}
}
