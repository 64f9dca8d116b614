package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"rideshare/internal/passhash"
	"rideshare/internal/wait"
)

// ErrCredentials is returned by ParseCredentials for a file with a malformed line or without credentials. An empty
// file must neither open all routes nor lock them by mistake.
var ErrCredentials = errors.New("malformed credentials file")

// Role is what a caller may do. Each role includes those before it.
type Role int

// The roles. Open is that of a route which asks for no credentials.
const (
	Open Role = iota
	Read
	Write
	Admin
)

var roleNames = [...]string{Open: "open", Read: "read", Write: "write", Admin: "admin"}

// String returns the role's name in a credentials file.
func (r Role) String() string { return roleNames[r] }

// ParseRole returns the role of a name in a credentials file. The error lists the names.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames[:], name); i > int(Open) {
		return Role(i), nil
	}
	return Open, fmt.Errorf("the role must be one of %s", strings.Join(roleNames[Read:], ", "))
}

// Credentials hold the accepted credentials of guarded routes. Several can be valid at a time, so that they can be
// rotated one by one. Nil Credentials accept every request. Credentials are safe for concurrent use.
type Credentials struct {
	table    atomic.Pointer[table]
	own      []secret // made by Own, kept when the file changes
	replaced wait.Signal
	hashing  hashing
	seed     maphash.Seed // chooses the hash that stands in for an unknown name's
	sends    bool         // see RequireAuthorization
}

// secret is a token, or a pair of user and password, that was written in clear text or hashed fast.
type secret struct {
	hash [sha256.Size]byte
	role Role
}

// ParseCredentials reads the lines "user NAME ROLE HASH", "token NAME ROLE sha256:HEX", and, with the role admin,
// "bearer TOKEN" and "basic USER:PASSWORD". It ignores empty lines and lines that begin with #. Errors name the line by
// its number, since the text is secret.
func ParseCredentials(r io.Reader) (*Credentials, error) {
	k := &Credentials{seed: maphash.MakeSeed()}
	k.hashing.places, k.hashing.check = make(chan struct{}, hashesAtOnce), passhash.Verify
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if err = k.Replace(text); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace makes text the contents of the file. It ends the streams of callers whose credentials are not in it. After an
// error nothing has changed.
func (k *Credentials) Replace(text []byte) error {
	t, err := parseTable(string(text))
	if err != nil {
		return err
	}
	if k.sends && t.first == "" {
		return errNoAuthorization
	}
	if old := k.table.Load(); old != nil {
		t.keepVerified(old)
	}
	k.table.Store(t)
	k.replaced.Notify()
	return nil
}

// Authorization returns the Authorization header for the first bearer or basic line of the file, "" for nil Credentials
// and for a file without such a line. The parts of the system use it when they call each other.
func (k *Credentials) Authorization() string {
	if k == nil {
		return ""
	}
	return k.table.Load().first
}

var errNoAuthorization = fmt.Errorf("no bearer or basic line in it, and a password cannot be sent from its hash: %w", ErrCredentials)

// RequireAuthorization returns an error if Authorization is "", and from now on makes Replace return it. It must be
// called before k is used concurrently.
func (k *Credentials) RequireAuthorization() error {
	if k.sends = true; k.Authorization() == "" {
		return errNoAuthorization
	}
	return nil
}

// Own adds a pair of name and random password that is valid as long as this process, and returns its Authorization
// header. The name is the caller that scopes Idempotency-Keys, so it must be the same after a restart. Own must be
// called before the first request.
func (k *Credentials) Own(name string, role Role) (authorization string) {
	pair := name + ":" + rand.Text()
	k.own = append(k.own, secret{hash: hashBasic(pair), role: role})
	return basicHeader(pair)
}

// identity is the sender of an accepted request.
type identity struct {
	role   Role
	caller string
	hash   [sha256.Size]byte // of a secret; zero for a user
	user   *user             // nil for a secret
}

// identify returns the sender of a request, nil if its credentials are missing or wrong. The error is CodeUnavailable:
// too many passwords wait to be checked.
func (k *Credentials) identify(r *http.Request) (*identity, error) {
	header := r.Header.Get(echo.HeaderAuthorization)
	p, ok := present(header)
	if !ok {
		return nil, nil //nolint:nilnil // as documented
	}
	t := k.table.Load()
	if role := max(roleOf(t.secrets, p.hash), roleOf(k.own, p.hash)); role > Open {
		return &identity{role: role, caller: p.caller, hash: p.hash}, nil
	}
	if p.name == "" || len(t.users) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	u, known := t.byName[p.name]
	if !known { // An unknown name takes as long as a wrong password: that of another user, who does not remember it.
		u = &user{hash: t.users[maphash.String(k.seed, p.name)%uint64(len(t.users))].hash}
	}
	right, err := k.hashing.verify(r.Context(), u, p.password)
	if err != nil || !right || !known {
		return nil, err
	}
	return &identity{role: u.role, caller: p.caller, user: u}, nil
}

// holds reports whether id's credentials are still in the file, with a role of at least need. A nil id is a caller
// without credentials.
func (k *Credentials) holds(id *identity, need Access) bool {
	t := k.table.Load()
	switch {
	case id == nil:
		return need.OpenBefore && t.onlyOld
	case id.user != nil:
		u := t.byName[id.user.name]
		return u != nil && u.hash == id.user.hash && u.role >= need.Role
	}
	return max(roleOf(t.secrets, id.hash), roleOf(k.own, id.hash)) >= need.Role
}

// roleOf compares with all secrets, so that the time does not reveal which one matched.
func roleOf(secrets []secret, hash [sha256.Size]byte) Role {
	role := 0
	for i := range secrets {
		match := subtle.ConstantTimeCompare(secrets[i].hash[:], hash[:])
		role = subtle.ConstantTimeSelect(match, int(secrets[i].role), role)
	}
	return Role(role)
}

// CallerOf returns the caller named by an Authorization header: the user of a basic pair, whose password may change,
// or the hash of a bearer token; "" if the header names no caller.
func CallerOf(authorization string) string {
	p, _ := present(authorization)
	return p.caller
}

// presented is what an Authorization header has.
type presented struct {
	hash           [sha256.Size]byte
	caller         string
	name, password string // of a basic pair
}

// present parses an Authorization header.
func present(authorization string) (p presented, ok bool) {
	r := http.Request{Header: http.Header{echo.HeaderAuthorization: {authorization}}}
	if user, password, basic := r.BasicAuth(); basic {
		return presented{hash: hashBasic(user + ":" + password), caller: "basic " + user, name: user, password: password}, true
	}
	scheme, token, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return p, false
	}
	token = strings.TrimSpace(token)
	// The prefix keeps the caller's name apart from the hash in a file, and is part of stored Idempotency-Keys.
	caller := sha256.Sum256([]byte("bearer\x00" + token))
	return presented{hash: sha256.Sum256([]byte(token)), caller: "bearer " + hex.EncodeToString(caller[:])}, true
}

// hashBasic has a prefix with a byte that no token has.
func hashBasic(pair string) [sha256.Size]byte { return sha256.Sum256([]byte("basic\x00" + pair)) }

func basicHeader(pair string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

// NewToken returns a random bearer token, and its line for a credentials file.
func NewToken(name string, role Role) (token, line string) {
	token = rand.Text() + rand.Text()
	hash := sha256.Sum256([]byte(token))
	return token, fmt.Sprintf("token %s %s sha256:%x", name, role, hash)
}

// CheckName returns an error unless name may stand in a credentials file. Basic authentication ends a name at a colon.
func CheckName(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r == ':' || r == 0x7f }
	if name == "" || len(name) > 255 || strings.ContainsFunc(name, bad) {
		return errors.New("the name has 1 to 255 bytes, and no blank, colon or control character")
	}
	return nil
}
