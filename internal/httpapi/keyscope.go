package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"rideshare/internal/dbaas"
)

// Orchestrator is the KeyScope.Service of the orchestrator's own routes.
const Orchestrator = "orchestrator"

// KeyScope is within what an Idempotency-Key names one operation: the same key of
// another caller, at another service or on another route, is another operation.
type KeyScope struct {
	// Service is the one that the client called.
	Service string
	// Caller is who the client is, see CallerOf; "" where no credentials are asked for.
	Caller string
	// Method and Path are those of the request. The path is as it came, percent-encoded and without a query.
	Method, Path string
}

// Key returns the scoped key, 64 hex digits, fit for a header; "" for an empty key.
func (s KeyScope) Key(key string) string {
	if key == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{s.Service, s.Caller, s.Method, s.Path, key} {
		// With their lengths, parts can never be cut differently.
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part)) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// OpID returns the id of the operation that key names here.
func (s KeyScope) OpID(key string) dbaas.OpID { return dbaas.OpIDFromKey(s.Key(key)) }
