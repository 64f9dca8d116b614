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
	"rideshare/internal/strictjson"
)

// ReadBody returns the whole body. If the client declares its length, the body is read into one buffer of that size.
// It counts as held until the request is answered, see Hold. Errors: those of BodyError, and CodeUnavailable while
// other requests hold too much.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return readUnknown(w, r)
	}
	if err := Hold(r.Context(), r.ContentLength); err != nil {
		return nil, err
	}
	body := make([]byte, r.ContentLength)
	left := body
	err := readPieces(w, r, r.ContentLength, r.ContentLength, func(n int64) error {
		_, err := io.ReadFull(r.Body, left[:n])
		left = left[n:]
		if err != nil {
			return BodyError(err)
		}
		return nil
	})
	return body, err
}

// ReadLimited is ReadBody for a handler outside an API, whose body may have limit bytes at most.
func ReadLimited(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := limitBody(w, r, limit); err != nil {
		return nil, err
	}
	return ReadBody(w, r)
}

// limitBody refuses a body whose declared length is over the limit, and cuts off a longer body of unknown length.
func limitBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	if state := requestOf(r.Context()); state != nil {
		state.maxBody = limit
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	return nil
}

// readUnknown reads a body of unknown length. A body that ends within smallHold gives back what it did not need. Once
// the body exceeds smallHold, it takes room for the route's whole limit.
func readUnknown(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	state := requestOf(r.Context())
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
	if err := readPieces(w, r, smallHold, smallHold, move); err != nil || ended {
		if state != nil {
			state.held.release(smallHold - int64(buf.Len()))
		}
		return buf.Bytes(), err
	}
	if err := Hold(r.Context(), limit); err != nil {
		return nil, err
	}
	err := readPieces(w, r, limit, limit-smallHold+1, move) // one byte more than the route allows, to detect a body that is too long
	return buf.Bytes(), err
}

// BodyError returns why a body could not be read to its end: CodeTooLarge if it was over its limit, CodeIncomplete if
// it did not arrive in time, CodeInvalid if the client stopped sending.
func BodyError(err error) *dbaas.Error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit)
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return dbaas.WrapError(dbaas.CodeIncomplete, "the body did not come in time", err)
	}
	return dbaas.WrapError(dbaas.CodeInvalid, "the body ended early", err)
}

// DecodeJSON reads the body into dst by the rules of strictjson.Unmarshal.
func DecodeJSON(c echo.Context, dst any) error {
	body, err := ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(body, dst)
}

// NoBody checks that the request has no body or an empty JSON object. Anything else is CodeInvalid.
func NoBody(c echo.Context) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	body, err := ReadBody(c.Response(), c.Request())
	if err != nil {
		return err
	}
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		return nil
	}
	return strictjson.Unmarshal(body, &struct{}{})
}

func tooLarge(limit int64) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeTooLarge, "the body is longer than %d bytes", limit)
}
