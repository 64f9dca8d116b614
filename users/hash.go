package users

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/crypto/argon2"

	"rideshare/internal/dbaas"
)

const (
	saltSize = 16 // bytes; RFC 9106, section 3.1
	hashSize = 32 // bytes
	// hashWait is how long a request waits for its turn to hash: less than the clients' timeouts, so that they get an
	// answer.
	hashWait = 20 * time.Second
)

// Cost is the cost of one hash. The zero value means DefaultCost.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
}

// DefaultCost is the parameter set of the OWASP Password Storage Cheat Sheet with the least memory, equal in strength to
// the others: many users may be created concurrently.
var DefaultCost = Cost{MemoryKiB: 7168, Passes: 5}

// Hasher computes password hashes, as many concurrently as there are processors: more would only take memory and delay
// all of them. It is safe for concurrent use.
type Hasher struct {
	cost  Cost
	slots chan struct{}
}

// NewHasher returns a Hasher.
func NewHasher(cost Cost) *Hasher {
	if cost == (Cost{}) {
		cost = DefaultCost
	}
	return &Hasher{cost: cost, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Hash returns the argon2id hash of password in the usual form, $argon2id$v=19$m=7168,t=5,p=1$salt$hash. It returns
// CodeUnavailable if its turn does not come before ctx ends or within 20 s.
func (h *Hasher) Hash(ctx context.Context, password string, salt [saltSize]byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return "", dbaas.WrapError(dbaas.CodeUnavailable, "too many users are being created", ctx.Err())
	}
	sum := argon2.IDKey([]byte(password), salt[:], h.cost.Passes, h.cost.MemoryKiB, 1, hashSize)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, h.cost.MemoryKiB, h.cost.Passes,
		b64.EncodeToString(salt[:]), b64.EncodeToString(sum)), nil
}

func randomSalt() (salt [saltSize]byte) {
	_, _ = rand.Read(salt[:]) // crypto/rand.Read never fails, by its documentation.
	return salt
}

// derivedSalt returns the salt of a repeatable request. The salt must not depend on the password, or equal passwords
// would show. The key is a hash of fixed length, so no two pairs of key and name give the same bytes.
func derivedSalt(key, name string) [saltSize]byte {
	sum := sha256.Sum256([]byte(key + name))
	return [saltSize]byte(sum[:saltSize])
}
