package wire_test

import (
	"bytes"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// Any bytes either fail to decode, or decode to a value that survives encoding and decoding; nothing panics.
func FuzzDecode(f *testing.F) {
	op := dbaas.Operation{ID: dbaas.OpIDFromKey("k"), Statements: []dbaas.Statement{{
		SQL: "insert", Args: []dbaas.Value{dbaas.Integer(-1), dbaas.Blob([]byte{1}), dbaas.Float(0.5), dbaas.Null()},
		Named: []dbaas.NamedValue{{Name: "n", Value: dbaas.Text("v")}},
	}}}
	result := dbaas.OperationResult{Seq: 4, Statements: []dbaas.StatementResult{{Columns: []string{"a"}, Rows: []dbaas.Row{{dbaas.Integer(1)}}}}}
	entry := dbaas.Entry{Seq: 1, Epoch: 2, Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: []byte("x")}}}
	seeds := [][]byte{
		seed(wire.ReadRequest{Reads: []dbaas.Read{{Format: dbaas.FormatArrays, Statements: op.Statements}}}.Encode(sent)),
		seed(wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{{Index: 1, Result: dbaas.ReadResult{Body: []byte("[]")}}}}.Encode()),
		seed(wire.ReadHeld{Worker: "w"}.Encode()),
		seed(wire.WriteRequest{Operations: []dbaas.Operation{op}}.Encode(sent)),
		seed(wire.WriteReply{Answers: []wire.WriteAnswer{{Result: result}}}.Encode()),
		seed(wire.EncodeEntry(entry)),
		seed(encodePage(0, []dbaas.Entry{entry, entry})),
		seed(wire.EncodeRecords(0, []wire.Record{{Result: result}})),
	}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, received(wire.DecodeReadRequest), func(r wire.ReadRequest) ([]byte, error) { return r.Encode(sent) })
		again(t, b, wire.DecodeReadReply, wire.ReadReply.Encode)
		again(t, b, wire.DecodeReadHeld, wire.ReadHeld.Encode)
		again(t, b, received(wire.DecodeWriteRequest), func(r wire.WriteRequest) ([]byte, error) { return r.Encode(sent) })
		again(t, b, wire.DecodeWriteReply, wire.WriteReply.Encode)
		again(t, b, wire.DecodeEntry, wire.EncodeEntry)
		sameChecks(t, b)
		again(t, b, wire.DecodeRecords, func(r []wire.Record) ([]byte, error) { return wire.EncodeRecords(0, r) })
		again(t, b, wire.DecodeEntries, func(e []dbaas.Entry) ([]byte, error) { return encodePage(0, e) })
	})
}

func seed(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// again encodes the value that b decodes to, and checks that decoding and encoding it once more changes nothing: the
// first encoding is the normal form.
func again[T any](t *testing.T, b []byte, decode func([]byte) (T, error), encode func(T) ([]byte, error)) {
	t.Helper()
	v, err := decode(b)
	if err != nil {
		return
	}
	first, err := encode(v)
	if err != nil {
		t.Fatalf("encode what was decoded: %v", err)
	}
	w, err := decode(first)
	if err != nil {
		t.Fatalf("decode what was encoded: %v", err)
	}
	second, err := encode(w)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Fatalf("encoding is not stable:\n%x\n%x", first, second)
	}
}
