package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// HeaderUser carries the name of a request's user where no credentials are required. Any client can send any name: it is a
// label, not a protection.
const HeaderUser = "X-Rideshare-User"

const (
	// DefaultUser is the user of a request that names none.
	DefaultUser = "default"
	// OtherUsers is the user that all users beyond maxUsers share.
	OtherUsers = "other"
)

const (
	// maxUsers bounds how many users are distinguished, because the parts keep state for each.
	maxUsers = 10_000
	// forgetUsers is the shortest time between two resets of the known users. They are reset once there are maxUsers.
	forgetUsers = time.Hour
)

// Users identifies the users of requests. It is safe for concurrent use.
type Users struct {
	credentials *Credentials

	mu    sync.RWMutex // guards the fields below
	since time.Time    // when known was last emptied
	known map[string]string
}

// NewUsers returns the Users of routes that credentials guard. credentials may be nil.
func NewUsers(credentials *Credentials) *Users {
	return &Users{credentials: credentials, since: time.Now(), known: map[string]string{}}
}

// Of returns the user of r. With credentials it is the name in the credential's line of the file; for a line
// "bearer TOKEN", which has no name, it is the first 8 hex digits of the token's SHA-256. Without credentials it is the
// name in HeaderUser. It is DefaultUser for a request that has neither, or whose name CheckName refuses.
//
// At most 10,000 users are distinguished; further users are OtherUsers.
func (u *Users) Of(r *http.Request) string {
	name := u.name(r)
	if name == DefaultUser {
		return name
	}
	u.mu.RLock()
	known, ok := u.known[name]
	u.mu.RUnlock()
	if ok {
		return known
	}
	return u.add(name)
}

func (u *Users) name(r *http.Request) string {
	if u.credentials == nil {
		return cmp.Or(labelOf(r), DefaultUser)
	}
	if id, _ := u.credentials.identityOf(r); id != nil { // Guard has returned the error.
		return id.name
	}
	return DefaultUser
}

// labelOf returns the name in HeaderUser, or "" if there is none, or CheckName refuses it.
func labelOf(r *http.Request) string {
	if name := r.Header.Get(HeaderUser); name != "" && CheckName(name) == nil {
		return name
	}
	return ""
}

// UserLabel returns the name that the request of ctx has in HeaderUser, or "". A service passes it on to another
// service that requires no credentials.
func UserLabel(ctx context.Context) string {
	if r := requestOf(ctx); r != nil {
		return r.user
	}
	return ""
}

func (u *Users) add(name string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.known) >= maxUsers {
		now := time.Now()
		if now.Sub(u.since) < forgetUsers {
			return OtherUsers
		}
		clear(u.known)
		u.since = now
	}
	name = strings.Clone(name) // it may be part of a longer text.
	u.known[name] = name
	return name
}
