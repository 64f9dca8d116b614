package sqlbody_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

// A request has so many statements and no more.
func TestLimits_Statements(t *testing.T) {
	body := func(n int) []byte { return []byte("[" + strings.Repeat(`"x",`, n-1) + `"x"]`) }
	for _, tt := range []struct {
		limits sqlbody.Limits
		most   int
	}{{sqlbody.Limits{}, sqlbody.MaxStatements}, {sqlbody.Limits{Statements: 3}, 3}} {
		if got, err := tt.limits.ParseSQL(body(tt.most)); err != nil || len(got) != tt.most {
			t.Errorf("%d: got %d statements, %v", tt.most, len(got), err)
		}
		if _, err := tt.limits.ParseSQL(body(tt.most + 1)); dbaas.CodeOf(err) != dbaas.CodeTooLarge {
			t.Errorf("%d: got %v, want CodeTooLarge", tt.most+1, err)
		}
		full := body(tt.most)
		if _, err := tt.limits.ParseSQL(full[:len(full)-1]); dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("%d and no end: got %v, want CodeInvalid", tt.most, err)
		}
	}
}

// Two bytes of a body can become a parameter of many more bytes: room is requested before they are allocated, and a
// refusal ends the parsing.
func TestLimits_Room_IsAskedFor(t *testing.T) {
	for name, body := range map[string]string{
		"ByPosition": `[["SELECT ?"` + strings.Repeat(",1", 500_000) + `]]`,
		"Statements": `[` + strings.Repeat(`["?",1,1,1,1,1,1,1,1,1,1],`, 50_000) + `"x"]`,
		"Texts":      `[` + strings.Repeat(`"x",`, 99_999) + `"x"]`,
		"ByName":     `[["SELECT :a",{` + named(100_000) + `}]]`,
	} {
		t.Run(name, func(t *testing.T) {
			refusal := errors.New("no more room")
			asked := int64(0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sqlbody.Limits{Room: func(n int64) error {
				if asked += n; asked > 4<<20 {
					return refusal
				}
				return nil
			}}.ParseSQL([]byte(body))
			runtime.ReadMemStats(&after)
			if err != refusal { //nolint:errorlint // as it is
				t.Fatalf("got %v, want the refusal", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
				t.Errorf("%d MiB were allocated before the refusal of more than 4 MiB", got>>20)
			}
		})
	}
}

// named returns n parameters with names of their own.
func named(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":1,`, i)
	}
	return b.String() + `"x":1`
}

// A large text of the body is not there twice, escaped or not.
func TestParseSQL_LargeText_IsNotCopied(t *testing.T) {
	text := strings.Repeat("x", 16<<20)
	for name, tt := range map[string]struct {
		body string
		most uint64
	}{
		"Plain":   {`[["SELECT ?","` + text + `"]]`, 1 << 20},
		"Escaped": {`[["SELECT ?","\n` + text + `"]]`, 17 << 20},
	} {
		body := []byte(tt.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := sqlbody.ParseSQL(body)
		runtime.ReadMemStats(&after)
		if err != nil || !strings.HasSuffix(got[0].Args[0].Text, text) {
			t.Fatalf("%s: got %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > tt.most {
			t.Errorf("%s: %d bytes were allocated for a text of 16 MiB, want at most %d", name, n, tt.most)
		}
	}
}
