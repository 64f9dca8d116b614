package wire_test

import (
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// BenchmarkReadBatch encodes and decodes 64 point reads and their answers once.
func BenchmarkReadBatch(b *testing.B) {
	reads := make([]dbaas.Read, 64)
	for i := range reads {
		reads[i] = dbaas.Read{
			RequestID: "0198f2c4-7c4e-7b1a-9c52-3f6d8b0a1e2d", Deadline: time.UnixMilli(1_800_000_000_000), Format: dbaas.FormatObjects,
			Statements: []dbaas.Statement{{SQL: `SELECT "users"."username" FROM "users" WHERE "users"."username" = ?`, Args: []dbaas.Value{dbaas.Text("ann")}}},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		encoded, err := wire.ReadRequest{Reads: reads}.Encode(sent)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := wire.DecodeReadRequest(encoded, sent); err != nil {
			b.Fatal(err)
		}
	}
}
