// Package passhash makes and verifies the slow hashes of passwords: argon2id, and bcrypt only to verify.
package passhash

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

const (
	// SaltSize is the size of a new salt in bytes; RFC 9106, section 3.1.
	SaltSize = 16
	hashSize = 32 // bytes
	// The highest costs that Check accepts: above them a single login takes seconds or hundreds of MiB.
	maxMemoryKiB = 256 << 10
	maxPasses    = 32
	maxThreads   = 16
	maxBcrypt    = 14
)

// ErrForm is the error of Check.
var ErrForm = errors.New("the hash is neither argon2id ($argon2id$v=19$m=...,t=...,p=...$salt$hash) nor bcrypt ($2b$...)")

// Cost is the cost of one argon2id hash.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
}

// DefaultCost is the parameter set of the OWASP Password Storage Cheat Sheet with the least memory, equal in strength to
// the others: many users may be created concurrently.
var DefaultCost = Cost{MemoryKiB: 7168, Passes: 5}

// Argon2id returns the hash of password in the usual form, $argon2id$v=19$m=7168,t=5,p=1$salt$hash.
func Argon2id(password string, salt [SaltSize]byte, cost Cost) string {
	a := argon{cost: cost, threads: 1, salt: salt[:]}
	return a.head() + b64.EncodeToString(salt[:]) + "$" + b64.EncodeToString(a.sum(password, hashSize))
}

// Check returns ErrForm unless hash is a well-formed argon2id or bcrypt hash of an affordable cost.
func Check(hash string) error {
	if bcryptForm.MatchString(hash) {
		if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost > maxBcrypt {
			return fmt.Errorf("%w of a cost up to %d", ErrForm, maxBcrypt)
		}
		return nil
	}
	_, _, err := parse(hash)
	return err
}

// Verify reports whether hash is that of password. It takes as long for a wrong password as for the right one.
func Verify(hash, password string) bool {
	if bcryptForm.MatchString(hash) {
		return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
	}
	a, want, err := parse(hash)
	if err != nil {
		return false
	}
	return subtle.ConstantTimeCompare(a.sum(password, len(want)), want) == 1
}

var (
	b64        = base64.RawStdEncoding.Strict()
	bcryptForm = regexp.MustCompile(`^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$`)
)

// argon holds the parameters of an argon2id hash.
type argon struct {
	cost    Cost
	threads uint8
	salt    []byte
}

// head returns the hash's text up to the salt.
func (a argon) head() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$", argon2.Version, a.cost.MemoryKiB, a.cost.Passes, a.threads)
}

func (a argon) sum(password string, size int) []byte {
	return argon2.IDKey([]byte(password), a.salt, a.cost.Passes, a.cost.MemoryKiB, a.threads, uint32(size))
}

// parse splits an argon2id hash into its parameters and the sum.
func parse(hash string) (a argon, sum []byte, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 {
		return a, nil, ErrForm
	}
	// Numbers that Sscanf accepts in another form, such as +5, are refused by comparing with the usual form.
	_, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &a.cost.MemoryKiB, &a.cost.Passes, &a.threads)
	if err != nil || strings.Join(parts[:4], "$")+"$" != a.head() {
		return a, nil, ErrForm
	}
	c := a.cost
	if c.Passes < 1 || c.Passes > maxPasses || a.threads < 1 || a.threads > maxThreads ||
		c.MemoryKiB < 8*uint32(a.threads) || c.MemoryKiB > maxMemoryKiB {
		return a, nil, fmt.Errorf("%w of at most m=%d, t=%d, p=%d", ErrForm, maxMemoryKiB, maxPasses, maxThreads)
	}
	if a.salt, err = b64.DecodeString(parts[4]); err != nil || len(a.salt) < 8 || len(a.salt) > 64 {
		return a, nil, ErrForm
	}
	if sum, err = b64.DecodeString(parts[5]); err != nil || len(sum) < 16 || len(sum) > 64 {
		return a, nil, ErrForm
	}
	return a, sum, nil
}
