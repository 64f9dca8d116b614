package api

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// challenge tells a client which credentials are taken (RFC 6750, RFC 7617).
const challenge = `Bearer realm="rideshare", Basic realm="rideshare", charset="UTF-8"`

// ErrCredentials is returned by ParseCredentials for a file with a line that is
// none, or with no credentials at all: an empty file must not mean open doors,
// nor locked ones by mistake.
var ErrCredentials = errors.New("malformed credentials file")

// Credentials are who may use the database, crash and console routes. Several
// can be valid at once, so that they can be changed one by one.
type Credentials struct {
	// accepted are hashes, of equal length whatever the secret's, so that
	// comparing them takes the same time.
	accepted [][sha256.Size]byte
}

// ParseCredentials reads lines "bearer TOKEN" and "basic USER:PASSWORD". Empty
// lines and those that begin with # do not count.
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
		case scheme == "basic" && paired && user != "":
			creds.accepted = append(creds.accepted, hashBasic(secret))
		default:
			// The line itself is a secret and stays out of the message.
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

// check returns CodeUnauthorized unless the request carries valid credentials.
// Nil Credentials let everybody in.
func (k *Credentials) check(c echo.Context) error {
	if k == nil || k.accept(c.Request()) {
		return nil
	}
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
	return dbaas.Errorf(dbaas.CodeUnauthorized, "credentials are missing or wrong")
}

func (k *Credentials) accept(r *http.Request) bool {
	var presented [sha256.Size]byte
	if user, password, ok := r.BasicAuth(); ok {
		presented = hashBasic(user + ":" + password)
	} else {
		scheme, token, found := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
		if !found || !strings.EqualFold(scheme, "bearer") {
			return false
		}
		presented = hashBearer(strings.TrimSpace(token))
	}
	match := 0
	for i := range k.accepted { // all of them, so that time does not tell which one matched.
		match |= subtle.ConstantTimeCompare(k.accepted[i][:], presented[:])
	}
	return match == 1
}
