package strictjson_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

type inner struct {
	N int64 `json:"n"`
}

type document struct {
	Name  string            `json:"name"`
	Seats *int64            `json:"seats,omitempty"`
	List  []string          `json:"list,omitempty"`
	In    *inner            `json:"in,omitempty"`
	Map   map[string]inner  `json:"map,omitempty"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Raws  []json.RawMessage `json:"raws,omitempty"`
}

// Well-formed text is decoded exactly, white space and escapes included.
func TestUnmarshal_Accepts(t *testing.T) {
	three := int64(3)
	for _, tt := range []struct {
		body string
		want document
	}{
		{`{"name":"ann"}`, document{Name: "ann"}},
		{" {\r\n\t\"name\" : \"\" } \n", document{}},
		{`{"na\u006de":"a\u00e9\ud83d\ude00\\u\n\/"}`, document{Name: "aé😀\\u\n/"}},
		{`{"name":"\\ud800"}`, document{Name: `\ud800`}},
		{`{"name":"a","seats":3,"list":["x"]}`, document{Name: "a", Seats: &three, List: []string{"x"}}},
		{`{"name":"a","in":{"n":9223372036854775807}}`, document{Name: "a", In: &inner{1<<63 - 1}}},
		{`{"name":"a","map":{"x":{"n":1}}}`, document{Name: "a", Map: map[string]inner{"x": {1}}}},
		{`{"name":"a","raw":{"x":[null,-0.5e+3,true,false,""]}}`, document{Name: "a", Raw: json.RawMessage(`{"x":[null,-0.5e+3,true,false,""]}`)}},
		{`{"name":"a","raws":[null,1]}`, document{Name: "a", Raws: []json.RawMessage{json.RawMessage("null"), json.RawMessage("1")}}},
	} {
		var got document
		if err := strictjson.Unmarshal([]byte(tt.body), &got); err != nil {
			t.Errorf("%s: %v", tt.body, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.body, diff)
		}
	}
}

// Anything that is not exactly the document is CodeInvalid.
func TestUnmarshal_Refuses(t *testing.T) {
	for name, body := range map[string]string{
		"Empty":            "",
		"Space":            " \n",
		"NotObject":        `["name"]`,
		"Null":             "null",
		"UnknownField":     `{"name":"a","x":1}`,
		"OtherCase":        `{"Name":"a"}`,
		"MissingField":     `{}`,
		"MissingInner":     `{"name":"a","in":{}}`,
		"NullField":        `{"name":null}`,
		"NullOptional":     `{"name":"a","seats":null}`,
		"NullInList":       `{"name":"a","list":[null]}`,
		"WrongType":        `{"name":1}`,
		"WrongTypeInList":  `{"name":"a","list":[1]}`,
		"ListForObject":    `{"name":"a","in":[]}`,
		"ObjectForList":    `{"name":"a","list":{}}`,
		"TextForNumber":    `{"name":"a","seats":"3"}`,
		"FloatForInteger":  `{"name":"a","seats":3.0}`,
		"ExponentInteger":  `{"name":"a","seats":1e1}`,
		"Overflow":         `{"name":"a","seats":9223372036854775808}`,
		"Trailing":         `{"name":"a"}x`,
		"TwoValues":        `{"name":"a"}{"name":"a"}`,
		"Duplicate":        `{"name":"a","name":"b"}`,
		"DuplicateEscaped": `{"name":"a","n\u0061me":"b"}`,
		"DuplicateDeep":    `{"name":"a","raw":[{"x":{"y":1,"y":2}}]}`,
		"DuplicateInMap":   `{"name":"a","map":{"x":{"n":1},"x":{"n":2}}}`,
		"BadUTF8":          "{\"name\":\"\xff\"}",
		"BadUTF8Key":       "{\"name\":\"a\",\"\xff\":1}",
		"LoneSurrogate":    `{"name":"\ud800"}`,
		"LoneLow":          `{"name":"\udc00x"}`,
		"WrongPair":        `{"name":"\ud800\u0041"}`,
		"ControlCharacter": "{\"name\":\"a\nb\"}",
		"ControlInKey":     "{\"name\":\"a\",\"map\":{\"	\":{\"n\":1}}}",
		"BadEscape":        `{"name":"\x41"}`,
		"SingleQuotes":     `{'name':'a'}`,
		"TrailingComma":    `{"name":"a",}`,
		"LeadingZero":      `{"name":"a","seats":03}`,
		"PlusSign":         `{"name":"a","seats":+3}`,
		"BareFraction":     `{"name":"a","raw":.5}`,
		"NaN":              `{"name":"a","raw":NaN}`,
		"Comment":          `{"name":"a"/**/}`,
		"ByteOrderMark":    "\ufeff" + `{"name":"a"}`,
		"Unclosed":         `{"name":"a"`,
		"UnclosedText":     `{"name":"a`,
		"EndsInEscape":     `{"name":"a\`,
		"NoColon":          `{"name" "a"}`,
		"Deep":             `{"name":"a","raw":` + strings.Repeat("[", 100_000),
		"DeepClosed":       `{"name":"a","raw":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			var got document
			if err := strictjson.Unmarshal([]byte(body), &got); dbaas.CodeOf(err) != dbaas.CodeInvalid {
				t.Errorf("%.60s: got %v, want CodeInvalid", body, err)
			}
		})
	}
}

// Duplicates are also found in objects with many keys.
func TestUnmarshal_ManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		b.WriteString(`"k` + strings.Repeat("x", i) + `":{"n":1},`)
	}
	var got map[string]inner
	if err := strictjson.Unmarshal([]byte("{"+b.String()+`"z":{"n":1}}`), &got); err != nil || len(got) != 101 {
		t.Errorf("got %d keys, %v; want 101", len(got), err)
	}
	if err := strictjson.Unmarshal([]byte("{"+b.String()+`"kxxx":{"n":1}}`), &got); dbaas.CodeOf(err) != dbaas.CodeInvalid {
		t.Errorf("got %v, want CodeInvalid", err)
	}
}

// For any input, the strict decoder neither panics nor accepts what encoding/json refuses, and where both decode they
// agree.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"name":"ann"}`, `{"name":"\ud83d\ude00"}`, `{"raw":[1,2.5e-3,{"a":null}],"name":""}`, `{"name":"a","name":"b"}`,
		`{"NAME":"x"}`, "\xff", `[[[[`, `{"name":"\ud800\udc00\ud800"}`, `{"list":["a","b"],"name":"\\"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want document
		if err := strictjson.Unmarshal(data, &got); err != nil {
			if dbaas.CodeOf(err) != dbaas.CodeInvalid || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q: got %v, want CodeInvalid", data, err)
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("%q was taken, encoding/json says %v", data, err)
		}
		if got.Name != want.Name || !reflect.DeepEqual(got.Seats, want.Seats) || !reflect.DeepEqual(got.In, want.In) {
			t.Fatalf("%q: got %+v, encoding/json has %+v", data, got, want)
		}
	})
}
