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

// The roles. Open is the role of a route that requires no credentials.
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
	seed     maphash.Seed // chooses the user whose hash is checked for an unknown name
	sends    bool         // see RequireAuthorization
}

// secret is a credential that is compared by its SHA-256: a token, or a pair of user and password that is in clear text
// in the file.
type secret struct {
	hash [sha256.Size]byte
	role Role
	name string // see Users
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

// ReadAuthorization returns the Authorization header for the first bearer or basic line of a file of credentials. A file
// without such a line is an error.
func ReadAuthorization(r io.Reader) (string, error) {
	k, err := ParseCredentials(r)
	if err == nil {
		err = k.RequireAuthorization()
	}
	if err != nil {
		return "", err
	}
	return k.Authorization(), nil
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
	k.own = append(k.own, secret{hash: hashBasic(pair), role: role, name: name})
	return basicHeader(pair)
}

// identity is the sender of an accepted request.
type identity struct {
	role   Role
	name   string // of the credential, see Users
	caller string
	hash   [sha256.Size]byte // of a secret; zero for a user
	user   *user             // nil for a secret
}

// identify returns the sender of a request, nil if its credentials are missing or wrong. It returns CodeUnavailable if
// the password was not checked in time, or too many passwords wait to be checked.
func (k *Credentials) identify(r *http.Request) (*identity, error) {
	header := r.Header.Get(echo.HeaderAuthorization)
	p, ok := present(header)
	if !ok {
		return nil, nil //nolint:nilnil // as documented
	}
	t := k.table.Load()
	for _, secrets := range [][]secret{t.secrets, k.own} {
		if s := match(secrets, p.hash); s != nil {
			return &identity{role: s.role, name: s.name, caller: p.caller, hash: p.hash}, nil
		}
	}
	if p.name == "" || len(t.users) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	u, known := t.byName[p.name]
	if !known { // An unknown name takes as long as a wrong password: check another user's hash, and ignore the remembered password.
		u = &user{hash: t.users[maphash.String(k.seed, p.name)%uint64(len(t.users))].hash}
	}
	right, err := k.hashing.verify(r.Context(), u, p.password)
	if err != nil || !right || !known {
		return nil, err
	}
	return &identity{role: u.role, name: u.name, caller: p.caller, user: u}, nil
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

// match returns the secret with the hash, or nil. It compares with all secrets, so that the time does not reveal which one
// matched.
func match(secrets []secret, hash [sha256.Size]byte) *secret {
	found := -1
	for i := range secrets {
		same := subtle.ConstantTimeCompare(secrets[i].hash[:], hash[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return nil
	}
	return &secrets[found]
}

// roleOf returns the role of the secret with the hash, Open if there is none.
func roleOf(secrets []secret, hash [sha256.Size]byte) Role {
	if s := match(secrets, hash); s != nil {
		return s.role
	}
	return Open
}

// CallerOf returns the caller that an Authorization header names. For a basic pair this is the user: the password is no part
// of it and may change. For a bearer token it is the token's hash. If the header names no caller, CallerOf returns "".
func CallerOf(authorization string) string {
	p, _ := present(authorization)
	return p.caller
}

// presented is the content of an Authorization header.
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

// hashBasic hashes a pair with a prefix that no token can have, so that a pair never matches a token.
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

// CheckName returns an error unless name is allowed in a credentials file. Basic authentication ends a name at a colon.
func CheckName(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r == ':' || r == 0x7f }
	if name == "" || len(name) > 255 || strings.ContainsFunc(name, bad) {
		return errors.New("the name has 1 to 255 bytes, and no blank, colon or control character")
	}
	return nil
}
