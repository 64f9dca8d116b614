package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// firstRead is how much room a body gets before any of it has come, in bytes: a
// client that only announces a long body must not make us allocate it.
const firstRead = 64 << 10

// ReadBody returns the whole body. Errors: CodeTooLarge over the route's limit,
// CodeInvalid if the client stopped sending.
func ReadBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	if n := r.ContentLength; n >= 0 && n <= firstRead {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, endedEarly(err)
		}
		return body, nil
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(firstRead + bytes.MinRead)
	}
	_, err := io.Copy(&buf, r.Body)
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(over.Limit)
	}
	if err != nil {
		return nil, endedEarly(err)
	}
	return buf.Bytes(), nil
}

func endedEarly(err error) error {
	return dbaas.WrapError(dbaas.CodeInvalid, "the body ended early", err)
}

// DecodeJSON reads the body into dst by the rules of UnmarshalStrict.
func DecodeJSON(c echo.Context, dst any) error {
	body, err := ReadBody(c)
	if err != nil {
		return err
	}
	return UnmarshalStrict(body, dst)
}

// NoBody checks that the request carries nothing: no body or an empty JSON
// object. Anything else is CodeInvalid.
func NoBody(c echo.Context) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	body, err := ReadBody(c)
	if err != nil {
		return err
	}
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		return nil
	}
	return UnmarshalStrict(body, &struct{}{})
}

func tooLarge(limit int64) error {
	return dbaas.Errorf(dbaas.CodeTooLarge, "the body is longer than %d bytes", limit)
}
