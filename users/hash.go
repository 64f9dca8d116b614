package users

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"runtime"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/passhash"
)

// hashWait is how long a request waits for its turn to hash: less than the clients' timeouts, so that they get an
// answer.
const hashWait = 20 * time.Second

// Hasher computes password hashes, as many concurrently as there are processors: more would only take memory and delay
// all of them. It is safe for concurrent use.
type Hasher struct {
	cost  passhash.Cost
	slots chan struct{}
}

// NewHasher returns a Hasher. The zero cost means passhash.DefaultCost.
func NewHasher(cost passhash.Cost) *Hasher {
	if cost == (passhash.Cost{}) {
		cost = passhash.DefaultCost
	}
	return &Hasher{cost: cost, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Hash returns the argon2id hash of password in the usual form, $argon2id$v=19$m=7168,t=5,p=1$salt$hash. It returns
// CodeUnavailable if its turn does not come before ctx ends or within 20 s.
func (h *Hasher) Hash(ctx context.Context, password string, salt [passhash.SaltSize]byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return "", dbaas.WrapError(dbaas.CodeUnavailable, "too many users are being created", ctx.Err())
	}
	return passhash.Argon2id(password, salt, h.cost), nil
}

func randomSalt() (salt [passhash.SaltSize]byte) {
	_, _ = rand.Read(salt[:]) // crypto/rand.Read never fails, by its documentation.
	return salt
}

// derivedSalt returns the salt of a repeatable request. The salt must not depend on the password, or equal passwords
// would show. The key is a hash of fixed length, so no two pairs of key and name give the same bytes.
func derivedSalt(key, name string) [passhash.SaltSize]byte {
	sum := sha256.Sum256([]byte(key + name))
	return [passhash.SaltSize]byte(sum[:passhash.SaltSize])
}
