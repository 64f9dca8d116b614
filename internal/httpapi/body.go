package httpapi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// ReadBody returns the whole body, in one piece of the right size where the client says how long it is. Until the
// request is answered it counts as held, see Hold. Errors: those of BodyError, and CodeUnavailable while others hold too much.
func ReadBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	if r.ContentLength < 0 {
		return readUnknown(c)
	}
	if err := Hold(r.Context(), r.ContentLength); err != nil {
		return nil, err
	}
	body := make([]byte, r.ContentLength)
	left := body
	err := readPieces(c, r.ContentLength, r.ContentLength, func(n int64) error {
		_, err := io.ReadFull(r.Body, left[:n])
		left = left[n:]
		if err != nil {
			return BodyError(err)
		}
		return nil
	})
	return body, err
}

// readUnknown reads a body of unknown length. One that is not small may become as long as the route allows.
func readUnknown(c echo.Context) ([]byte, error) {
	r, state := c.Request(), requestOf(c.Request().Context())
	if err := Hold(r.Context(), smallHold); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	ended := false
	move := func(n int64) error {
		_, err := io.CopyN(&buf, r.Body, n)
		if ended = err == io.EOF; err != nil && !ended { //nolint:errorlint // io.CopyN returns it as it is.
			return BodyError(err)
		}
		return err
	}
	limit := int64(math.MaxInt64)
	if state != nil {
		limit = state.maxBody
	}
	if err := readPieces(c, smallHold, smallHold, move); err != nil || ended {
		return buf.Bytes(), err
	}
	if err := Hold(r.Context(), limit); err != nil {
		return nil, err
	}
	err := readPieces(c, limit, limit-smallHold+1, move) // one byte more than the route allows, which finds out
	return buf.Bytes(), err
}

// BodyError says why a body could not be read to its end: CodeTooLarge over its limit, CodeIncomplete when it did not come
// in time, CodeInvalid when the client stopped sending.
func BodyError(err error) *dbaas.Error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit)
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return dbaas.WrapError(dbaas.CodeIncomplete, "the body did not come in time", err)
	}
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

func tooLarge(limit int64) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeTooLarge, "the body is longer than %d bytes", limit)
}
