package httpapi

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// challenge tells a client which credentials are accepted (RFC 6750, RFC 7617).
const challenge = `Bearer realm="rideshare", Basic realm="rideshare", charset="UTF-8"`

// ErrCredentials is returned by ParseCredentials for a file with a malformed line or without credentials. An empty
// file must neither open all routes nor lock them by mistake.
var ErrCredentials = errors.New("malformed credentials file")

// Credentials hold the accepted credentials of guarded routes. Several can be valid at a time, so that they can be
// rotated one by one. Nil Credentials accept every request.
type Credentials struct {
	// accepted are hashes. They have equal length whatever the secret's, so that comparing them takes constant time.
	accepted [][sha256.Size]byte
	first    string
}

// Authorization returns the Authorization header for the first line of the file, "" for nil Credentials. The parts of
// the system use it when they call each other.
func (k *Credentials) Authorization() string {
	if k == nil {
		return ""
	}
	return k.first
}

// ParseCredentials reads lines "bearer TOKEN" and "basic USER:PASSWORD". It ignores empty lines and lines that begin
// with #.
func ParseCredentials(r io.Reader) (*Credentials, error) {
	creds := &Credentials{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		scheme, secret, _ := strings.Cut(line, " ")
		secret = strings.TrimSpace(secret)
		user, _, paired := strings.Cut(secret, ":")
		switch {
		case scheme == "bearer" && secret != "" && !strings.Contains(secret, " "):
			creds.accepted = append(creds.accepted, hashBearer(secret))
			creds.first = cmp.Or(creds.first, "Bearer "+secret)
		case scheme == "basic" && paired && user != "":
			creds.accepted = append(creds.accepted, hashBasic(secret))
			creds.first = cmp.Or(creds.first, "Basic "+base64.StdEncoding.EncodeToString([]byte(secret)))
		default:
			// The line itself is a secret and must not appear in the message.
			return nil, fmt.Errorf("line %d is neither \"bearer TOKEN\" nor \"basic USER:PASSWORD\": %w", n, ErrCredentials)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if len(creds.accepted) == 0 {
		return nil, fmt.Errorf("no credentials in it: %w", ErrCredentials)
	}
	return creds, nil
}

func hashBearer(token string) [sha256.Size]byte { return sha256.Sum256([]byte("bearer\x00" + token)) }

func hashBasic(pair string) [sha256.Size]byte { return sha256.Sum256([]byte("basic\x00" + pair)) }

// Guard returns h behind the credentials. With nil Credentials the route is open. In both cases Guard refuses a
// change sent by a page of another origin, see checkOrigin.
func (k *Credentials) Guard(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := checkOrigin(c.Request()); err != nil {
			return err
		}
		if k != nil && !k.accept(c.Request()) {
			c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
			return dbaas.Errorf(dbaas.CodeUnauthorized, "credentials are missing or wrong")
		}
		return h(c)
	}
}

// Caller returns the sender of an accepted request, for KeyScope. It is "" for any other request, and for nil
// Credentials.
func (k *Credentials) Caller(r *http.Request) string {
	if k == nil || !k.accept(r) {
		return ""
	}
	return CallerOf(r.Header.Get(echo.HeaderAuthorization))
}

// CallerOf returns the caller named by an Authorization header: the user of a basic pair, whose password may change,
// or the hash of a bearer token; "" if the header names no caller.
func CallerOf(authorization string) string {
	_, caller, _ := present(authorization)
	return caller
}

func (k *Credentials) accept(r *http.Request) bool {
	presented, _, ok := present(r.Header.Get(echo.HeaderAuthorization))
	if !ok {
		return false
	}
	match := 0
	for i := range k.accepted { // all of them, so that the timing does not reveal which one matched.
		match |= subtle.ConstantTimeCompare(k.accepted[i][:], presented[:])
	}
	return match == 1
}

// present parses an Authorization header: it returns the hash to compare, and the caller.
func present(authorization string) (hash [sha256.Size]byte, caller string, ok bool) {
	r := http.Request{Header: http.Header{echo.HeaderAuthorization: {authorization}}}
	if user, password, basic := r.BasicAuth(); basic {
		return hashBasic(user + ":" + password), "basic " + user, true
	}
	scheme, token, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return hash, "", false
	}
	hash = hashBearer(strings.TrimSpace(token))
	return hash, "bearer " + hex.EncodeToString(hash[:]), true
}
