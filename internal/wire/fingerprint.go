package wire

import (
	"crypto/sha256"
	"hash"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// hashChunk is how many bytes are encoded before they are hashed: a statement may have 64 MiB, which should not be
// copied.
const hashChunk = 4 << 10

// FingerprintOf returns the fingerprint of an operation with these statements. Equal statements and parameters have
// equal fingerprints. Different ones have different fingerprints, except with probability 2^-128. Source: first half of
// SHA-256, over the statements as encoded in a frame.
func FingerprintOf(atomic bool, statements []dbaas.Statement) dbaas.Fingerprint {
	f := fingerprint{hash: sha256.New(), b: make([]byte, 0, 256)}
	f.b = appendBool(f.b, atomic)
	f.b = packed.AppendUint(f.b, uint64(len(statements)))
	for i := range statements {
		f.statement(&statements[i])
	}
	f.flush()
	return dbaas.Fingerprint(f.hash.Sum(f.b)[:16])
}

// fingerprint hashes the encoded bytes, piece by piece.
type fingerprint struct {
	hash hash.Hash
	b    []byte // encoded and not hashed yet
}

func (f *fingerprint) flush() {
	_, _ = f.hash.Write(f.b) // a hash never fails
	f.b = f.b[:0]
}

func (f *fingerprint) statement(s *dbaas.Statement) {
	f.text(s.SQL)
	f.b = packed.AppendUint(f.b, uint64(len(s.Args)))
	for i := range s.Args {
		f.value(&s.Args[i])
	}
	f.b = packed.AppendUint(f.b, uint64(len(s.Named)))
	for i := range s.Named {
		f.text(s.Named[i].Name)
		f.value(&s.Named[i].Value)
	}
}

func (f *fingerprint) value(v *dbaas.Value) {
	switch v.Kind {
	case dbaas.KindText:
		f.b = append(f.b, byte(v.Kind))
		f.text(v.Text)
	case dbaas.KindBlob:
		f.b = packed.AppendUint(append(f.b, byte(v.Kind)), uint64(len(v.Blob)))
		f.flush()
		_, _ = f.hash.Write(v.Blob)
	case dbaas.KindNull, dbaas.KindInteger, dbaas.KindFloat:
		if f.b = packed.AppendValue(f.b, *v); len(f.b) >= hashChunk {
			f.flush()
		}
	}
}

func (f *fingerprint) text(s string) {
	f.b = packed.AppendUint(f.b, uint64(len(s)))
	for len(s) > 0 {
		n := min(len(s), hashChunk)
		f.b, s = append(f.b, s[:n]...), s[n:]
		if len(f.b) >= hashChunk {
			f.flush()
		}
	}
}
