package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"rideshare/internal/dbaas"
)

// Orchestrator is the KeyScope.Service of the orchestrator's own routes.
const Orchestrator = "orchestrator"

// KeyScope is the scope in which an Idempotency-Key identifies an operation: the same key from another caller, at
// another service or on another route identifies another operation.
type KeyScope struct {
	// Service is the service that the client called.
	Service string
	// Caller identifies the client, see CallerOf; "" if no credentials are required.
	Caller string
	// Method and Path are those of the request. Path is percent-encoded as received, without the query.
	Method, Path string
}

// Key returns the scoped key as 64 hex digits, which a header can carry; "" for an empty key.
func (s KeyScope) Key(key string) string {
	if key == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{s.Service, s.Caller, s.Method, s.Path, key} {
		// The length prefixes make the boundaries between the parts unambiguous.
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part)) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// OpID returns the id of the operation that key identifies in this scope.
func (s KeyScope) OpID(key string) dbaas.OpID { return dbaas.OpIDFromKey(s.Key(key)) }
