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
	// hashWait is how long a request waits for its turn to hash: under the
	// time-outs of the clients, so that they get an answer.
	hashWait = 20 * time.Second
)

// Cost is what one hash costs. The zero value means DefaultCost.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
}

// DefaultCost is the set of the OWASP Password Storage Cheat Sheet with the
// least memory, of equal strength to the others: many users are created at once.
var DefaultCost = Cost{MemoryKiB: 7168, Passes: 5}

// Hasher makes password hashes, as many at once as there are processors: more
// would only take memory and make all of them late. It is safe for concurrent use.
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

// Hash returns password's argon2id hash in the usual form,
// $argon2id$v=19$m=7168,t=5,p=1$salt$hash. It returns CodeUnavailable when its
// turn does not come before ctx ends or in 20 s.
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

// derivedSalt is the salt of a repeatable request. It must not depend on the
// password, or equal passwords would show; the key is a hash of fixed length,
// so no two pairs of key and name give the same bytes.
func derivedSalt(key, name string) [saltSize]byte {
	sum := sha256.Sum256([]byte(key + name))
	return [saltSize]byte(sum[:saltSize])
}
