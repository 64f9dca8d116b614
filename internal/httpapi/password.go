package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// hashesAtOnce is how many slow hashes run concurrently. It bounds their CPU and memory.
	hashesAtOnce = 2
	// hashesWaiting is how many requests may wait for one of the hashesAtOnce places.
	hashesWaiting = 64
	// rememberFor is how long after its last use a verified password needs no slow hash.
	rememberFor = time.Minute
)

// user is a line "user NAME ROLE HASH".
type user struct {
	name     string
	role     Role
	hash     string
	verified atomic.Pointer[verified] // nil before the first correct password
}

// verified is a password that was correct.
type verified struct {
	sum [sha256.Size]byte // of the password, under a key of this process
	at  time.Time         // when it was last presented
}

// hashing limits the slow hashes. Only correct passwords are remembered, so an attacker cannot fill the memory.
type hashing struct {
	places  chan struct{}
	check   func(hash, password string) bool
	waiting atomic.Int64
}

// verifiedKey makes a remembered sum worthless outside of this process.
var verifiedKey = []byte(rand.Text())

// verify reports whether password is u's. A password that was correct within the last minute needs no slow hash. Any
// other password waits for a place. verify returns CodeUnavailable if too many wait, or if ctx ends first.
func (h *hashing) verify(ctx context.Context, u *user, password string) (bool, error) {
	mac := hmac.New(sha256.New, verifiedKey)
	_, _ = mac.Write([]byte(password)) // a hash never fails
	sum := [sha256.Size]byte(mac.Sum(nil))
	if u.remembers(sum) {
		return true, nil
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer func() { <-h.places }()
	if u.remembers(sum) { // another request has verified it while this one waited
		return true, nil
	}
	if !h.check(u.hash, password) {
		return false, nil
	}
	u.verified.Store(&verified{sum: sum, at: time.Now()})
	return true, nil
}

// remembers reports whether a password was correct within the last minute, and restarts that minute.
func (u *user) remembers(sum [sha256.Size]byte) bool {
	v := u.verified.Load()
	if v == nil || !hmac.Equal(v.sum[:], sum[:]) || time.Since(v.at) > rememberFor {
		return false
	}
	u.verified.CompareAndSwap(v, &verified{sum: sum, at: time.Now()})
	return true
}

// enter takes one of the places for slow hashes, and waits for it. It returns CodeUnavailable if too many requests wait
// already, or if ctx ends.
func (h *hashing) enter(ctx context.Context) error {
	select {
	case h.places <- struct{}{}:
		return nil
	default:
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > hashesWaiting {
		return dbaas.Errorf(dbaas.CodeUnavailable, "too many passwords are being checked, try again")
	}
	select {
	case h.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return dbaas.WrapError(dbaas.CodeUnavailable, "the password was not checked in time", ctx.Err())
	}
}
