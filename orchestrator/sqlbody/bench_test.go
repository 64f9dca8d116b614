package sqlbody_test

import (
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

// BenchmarkParse parses bodies of both forms, from the body of a point read to one of a thousand statements.
func BenchmarkParse(b *testing.B) {
	one := func(st dbaas.Statement, err error) ([]dbaas.Statement, error) { return []dbaas.Statement{st}, err }
	read := func(body []byte) ([]dbaas.Statement, error) { return one(sqlbody.ParseRead(body)) }
	write := func(body []byte) ([]dbaas.Statement, error) { return one(sqlbody.ParseWrite(body)) }
	for _, bm := range []struct {
		name, body string
		parse      func([]byte) ([]dbaas.Statement, error)
	}{
		{"PointRead", `{"table":"users","columns":["username","password"],"condition":{"username":"ann"}}`, read},
		{"Insert", `{"query":"insert","table":"users","values":{"username":"ann","password":"3d725109c7e7c0bfb9d709836735b56d943d263f"}}`, write},
		{"Escaped", `{"query":"insert","table":"t","values":{"a":"line\nbreak \u00e9\ud83d\ude00","b":-12.5e3}}`, write},
		{"SQL", `[["SELECT * FROM users WHERE username = ?", "ann"]]`, sqlbody.ParseSQL},
		{"Named", `[["SELECT * FROM t WHERE a = :a AND b = :b", {"a": 1, "b": "x"}]]`, sqlbody.ParseSQL},
		{"Blob", `[["INSERT INTO t VALUES(?)", [` + strings.Repeat("200,", 9_999) + `1]]]`, sqlbody.ParseSQL},
		{"Thousand", `[` + strings.Repeat(`["INSERT INTO t(a, b) VALUES(?, ?)", 1234567, "some text"],`, 999) + `"SELECT 1"]`, sqlbody.ParseSQL},
		{"LargeText", `[["INSERT INTO t VALUES(?)", "` + strings.Repeat("some text é ", 100_000) + `"]]`, sqlbody.ParseSQL},
	} {
		b.Run(bm.name, func(b *testing.B) {
			body := []byte(bm.body)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bm.parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
