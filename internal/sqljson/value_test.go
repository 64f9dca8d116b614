package sqljson_test

import (
	"math"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// rendered returns v as the SQL form shows it in a column of the declared type.
func rendered(t *testing.T, declared string, v dbaas.Value) string {
	t.Helper()
	result := dbaas.StatementResult{Columns: []string{"c"}, Types: []string{declared}, Rows: []dbaas.Row{{v}}}
	b, err := sqljson.Renderer{}.AppendStored(nil, &result)
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(b), `"values":[[`)
	return strings.TrimSuffix(value, "]]")
}

// JSON numbers read back as the same float, and text as the same text.
func TestRenderer_FloatsReadBack(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 1: "1", -1.5: "-1.5", 1e21: "1e+21", 1e-7: "1e-07", 123456789012345680000: "123456789012345680000",
		math.MaxFloat64: "1.7976931348623157e+308",
	} {
		if got := rendered(t, "", dbaas.Float(f)); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
	if got := rendered(t, "", dbaas.Float(math.NaN())); got != "null" {
		t.Errorf("NaN: got %s", got)
	}
}

// JSON has no infinity, so a result with an infinity is an error that names the column.
func TestRenderer_Infinity_Error(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.Inf(1), math.Inf(-1)} {
		result := dbaas.StatementResult{Columns: []string{"c"}, Rows: []dbaas.Row{{dbaas.Float(f)}}}
		_, err := sqljson.Renderer{}.AppendStored(nil, &result)
		if dbaas.CodeOf(err) != dbaas.CodeInvalid || err.Error() != "column c holds an infinity, which JSON cannot carry" {
			t.Errorf("%v: got %v", f, err)
		}
	}
}

// The declared type of a column decides how the SQL form shows its values.
func TestRenderer_DeclaredTypes(t *testing.T) {
	t.Parallel()
	text, integer := dbaas.Text, dbaas.Integer
	for _, tc := range []struct {
		declared string
		value    dbaas.Value
		want     string
	}{
		{"date", text("2024-02-29"), `"2024-02-29T00:00:00Z"`},
		{"date", text("2023-02-29"), `"2023-02-29"`},
		{"datetime", text("2024-01-02 03:04"), `"2024-01-02T03:04:00Z"`},
		{"datetime", text("2024-01-02T03:04:05"), `"2024-01-02T03:04:05Z"`},
		{"timestamp", text("2024-01-02 03:04:05.250"), `"2024-01-02T03:04:05.25Z"`},
		{"timestamp", text("2024-01-02 03:04:05Z"), `"2024-01-02T03:04:05Z"`},
		{"timestamp", text("2024-01-02 03:04+02:30"), `"2024-01-02T03:04:00+02:30"`},
		{"timestamp", text("0000-01-01"), `"0000-01-01T00:00:00Z"`},
		{"timestamp", text("2024-01-02 3:04"), `"2024-01-02 3:04"`},
		{"timestamp", text("2024-01-02 03:04:05,5"), `"2024-01-02 03:04:05,5"`},
		{"timestamp", text("2024-01-02 24:00"), `"2024-01-02 24:00"`},
		{"timestamp", text("soon"), `"soon"`},
		{"timestamp", integer(0), `"1970-01-01T00:00:00Z"`},
		{"timestamp", integer(-1), `"1969-12-31T23:59:59Z"`},
		{"timestamp", integer(1_000_000_000_001), `"2001-09-09T01:46:40.001Z"`},
		{"timestamp", integer(-1_000_000_000_001), `"1938-04-24T22:13:19.999Z"`},
		{"timestamp", integer(1_000_000_000_000), `1000000000000`},
		{"timestamp", integer(math.MaxInt64), `9223372036854775807`},
		{"timestamp", integer(-62_167_219_201), `-62167219201`},
		{"timestamp", dbaas.Float(0.5), `0.5`},
		{"timestamp", dbaas.Null(), `null`},
		{"timestamp(3)", integer(0), `0`},
		{"boolean", integer(2), `true`},
		{"boolean", integer(0), `false`},
		{"boolean", integer(-1), `false`},
		{"boolean", text("yes"), `"yes"`},
		{"text", dbaas.Blob([]byte("h\"é")), `"h\"é"`},
		{"varchar(10)", dbaas.Blob([]byte("h")), `"h"`},
		{"nvarchar(10)", dbaas.Blob([]byte("h")), `"h"`},
		{"nchar(10)", dbaas.Blob([]byte("h")), `"h"`},
		{"json", dbaas.Blob([]byte("{}")), `"{}"`},
		{"clob", dbaas.Blob([]byte{0xff}), `"/w=="`},
		{"char(3)", dbaas.Blob([]byte("h")), `"aA=="`},
		{"blob", dbaas.Blob([]byte("h")), `"aA=="`},
		{"", dbaas.Blob([]byte("h")), `"aA=="`},
	} {
		if got := rendered(t, tc.declared, tc.value); got != tc.want {
			t.Errorf("%s %+v: got %s, want %s", tc.declared, tc.value, got, tc.want)
		}
	}
}
