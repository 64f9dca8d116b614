package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// challenge lists the kinds of credentials that are accepted (RFC 6750, RFC 7617).
const challenge = `Bearer realm="rideshare", Basic realm="rideshare", charset="UTF-8"`

// Access defines which callers may call a route.
type Access struct {
	Role Role
	// OpenBefore: the route requires no credentials while the file has only bearer and basic lines, as before roles
	// existed.
	OpenBefore bool
	// Stream: the answer is endless. It is ended when the caller loses the role.
	Stream bool
}

// Guard returns h for callers with the role of need. With nil Credentials the route is open. In both cases Guard refuses
// a change sent by a page of another origin, see checkOrigin.
func (k *Credentials) Guard(need Access, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := checkOrigin(c.Request()); err != nil {
			return err
		}
		if k == nil {
			return h(c)
		}
		id, err := k.identityOf(c.Request())
		if err == nil {
			err = k.allow(c, id, need)
		}
		if err != nil {
			return err
		}
		if need.Stream {
			defer k.endWith(c, id, need)()
		}
		return h(c)
	}
}

// identityOf is identify, but remembers an accepted identity for the rest of the request.
func (k *Credentials) identityOf(r *http.Request) (*identity, error) {
	state := requestOf(r.Context())
	if state != nil && state.identity != nil {
		return state.identity, nil
	}
	id, err := k.identify(r)
	if state != nil && err == nil {
		state.identity = id
	}
	return id, err
}

// allow returns CodeUnauthorized or CodeForbidden unless id may call the route.
func (k *Credentials) allow(c echo.Context, id *identity, need Access) error {
	switch {
	case k.holds(id, need):
		return nil
	case id == nil:
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
		return dbaas.Errorf(dbaas.CodeUnauthorized, "credentials are missing or wrong")
	}
	return dbaas.Errorf(dbaas.CodeForbidden, "this needs the role %s, and these credentials have the role %s", need.Role, id.role)
}

// ErrRoleLost is the cause of the end of a stream whose caller may no longer call its route.
var ErrRoleLost = errors.New("the caller's credentials no longer allow this")

// endWith ends the request's context, with ErrRoleLost as cause, when id may no longer call the route. The caller must call end.
func (k *Credentials) endWith(c echo.Context, id *identity, need Access) (end func()) {
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	end = func() { cancel(nil) }
	c.SetRequest(c.Request().WithContext(ctx))
	go func() {
		for {
			next := k.replaced.Next()
			if !k.holds(id, need) {
				cancel(ErrRoleLost)
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return end
}

// Caller returns the sender of a request, for KeyScope. It is "" for a request without accepted credentials, and for
// nil Credentials. Its errors are those of identify.
func (k *Credentials) Caller(r *http.Request) (string, error) {
	if k == nil {
		return "", nil
	}
	id, err := k.identityOf(r)
	if id == nil {
		return "", err
	}
	return id.caller, nil
}

// RoleOf returns the role of the caller of a guarded route: Admin where no credentials are required.
func RoleOf(ctx context.Context) Role {
	if state := requestOf(ctx); state != nil && state.identity != nil {
		return state.identity.role
	}
	return Admin
}
