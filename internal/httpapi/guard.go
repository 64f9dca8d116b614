package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// challenge tells a client which credentials are accepted (RFC 6750, RFC 7617).
const challenge = `Bearer realm="rideshare", Basic realm="rideshare", charset="UTF-8"`

// Access says who may call a route.
type Access struct {
	Role Role
	// OpenBefore: the route asks for nothing while the file has only bearer and basic lines, as before there were roles.
	OpenBefore bool
	// Stream: the answer has no end of its own. It ends when the caller loses the role.
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

// identityOf is identify, once for each request.
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

// endWith ends the request's context when id may no longer call the route. The caller must call end.
func (k *Credentials) endWith(c echo.Context, id *identity, need Access) (end func()) {
	ctx, end := context.WithCancel(c.Request().Context())
	c.SetRequest(c.Request().WithContext(ctx))
	go func() {
		defer end()
		for {
			next := k.replaced.Next()
			if !k.holds(id, need) {
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

// Caller returns the sender of a request, for KeyScope. It is "" for a request without accepted credentials, and for nil
// Credentials. The error is CodeUnavailable: too many passwords wait to be checked.
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
