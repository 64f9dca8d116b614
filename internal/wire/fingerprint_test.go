package wire

import (
	"crypto/sha256"
	"runtime"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
)

// A fingerprint is stored with the answer of an operation, so it must never change. It is computed over the
// statements as encoded in a frame, however long they are.
func TestFingerprintOf_IsTheHashOfTheFrame(t *testing.T) {
	statements := []dbaas.Statement{{SQL: ""}, {SQL: "SELECT ?"}}
	for _, n := range []int{0, 1, 127, 128, 255, hashChunk - 1, hashChunk, hashChunk + 1, 3*hashChunk + 7} {
		long := strings.Repeat("x", n)
		statements = append(statements,
			dbaas.Statement{SQL: long, Args: []dbaas.Value{dbaas.Text(long), dbaas.Blob([]byte(long)), dbaas.Integer(int64(-n)), dbaas.Float(1.5), dbaas.Null()}},
			dbaas.Statement{SQL: long, Named: []dbaas.NamedValue{{Name: long, Value: dbaas.Text(long)}, {Name: "b", Value: dbaas.Null()}}})
	}
	many := dbaas.Statement{SQL: "many"}
	for i := range 10000 {
		many.Args = append(many.Args, dbaas.Integer(int64(i)))
	}
	statements = append(statements, many)
	for n := range statements {
		for _, atomic := range []bool{false, true} {
			want := sha256.Sum256(appendStatements(appendBool(nil, atomic), statements[:n]))
			if got := FingerprintOf(atomic, statements[:n]); got != dbaas.Fingerprint(want[:16]) {
				t.Errorf("%d statements, atomic %v: got %x, want %x", n, atomic, got, want[:16])
			}
		}
	}
}

// Hashing a large operation does not copy it.
func TestFingerprintOf_LargeValue_IsNotCopied(t *testing.T) {
	statements := []dbaas.Statement{{SQL: "INSERT INTO t VALUES(?)", Args: []dbaas.Value{dbaas.Text(strings.Repeat("x", 16<<20))}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	FingerprintOf(true, statements)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("got %d bytes for a value of 16 MiB, want a few KiB", got)
	}
}
