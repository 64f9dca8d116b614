package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

// Headers of positions and idempotent writes, and of requests in the SQL form whose strings are never BLOBs.
const (
	HeaderSeq            = "X-Seq"
	HeaderMinSeq         = "X-Min-Seq"
	HeaderCluster        = "X-Cluster-Id"
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderPlainText      = "X-Plain-Text"
)

// maxIdempotencyKey is the longest accepted key, in characters.
const maxIdempotencyKey = 255

// JSON answers with v as JSON and a newline, so that a terminal's prompt after it starts on a new line. It does not
// escape text for HTML.
func JSON(c echo.Context, httpStatus int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return blob(c, httpStatus, body)
}

// JSONExactly is JSON without the newline, for the routes of the course and of rqlite: clients may compare their bodies.
func JSONExactly(c echo.Context, httpStatus int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return blob(c, httpStatus, bytes.TrimSuffix(body, []byte("\n")))
}

// blob answers with JSON, which may be long: a ride has any number of riders.
func blob(c echo.Context, httpStatus int, body []byte) error {
	if len(body) <= smallHold {
		return c.JSONBlob(httpStatus, body)
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	c.Response().WriteHeader(httpStatus)
	return WriteLong(c, body)
}

// encode returns v as JSON with a newline.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return buf.Bytes(), nil
}

// Empty answers `{}`.
func Empty(c echo.Context, httpStatus int) error {
	return c.JSONBlob(httpStatus, []byte("{}"))
}

// SetSeq sets the position header of the answer, unless seq is zero.
func SetSeq(c echo.Context, seq dbaas.Seq) {
	if seq > 0 {
		c.Response().Header().Set(HeaderSeq, strconv.FormatUint(uint64(seq), 10))
	}
}

// MinSeq returns the position that the client wants to see, zero if the client gives none. A malformed position is
// CodeInvalid.
func MinSeq(c echo.Context) (dbaas.Seq, error) {
	values := c.Request().Header.Values(HeaderMinSeq)
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || len(values) > 1 {
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "%s is not a position", HeaderMinSeq)
	}
	return dbaas.Seq(n), nil
}

// ClusterOfMinSeq returns the cluster of the position that the client wants to see, zero if the client gives no position,
// or no cluster. A malformed id is CodeInvalid.
func ClusterOfMinSeq(c echo.Context) (id dbaas.ClusterID, err error) {
	h := c.Request().Header
	values := h.Values(HeaderCluster)
	if len(values) == 0 || len(h.Values(HeaderMinSeq)) == 0 {
		return id, nil
	}
	if len(values) > 1 || id.UnmarshalText([]byte(values[0])) != nil {
		return id, dbaas.Errorf(dbaas.CodeInvalid, "%s is not a cluster id, 32 hexadecimal digits", HeaderCluster)
	}
	return id, nil
}

// IdempotencyKey returns the client's key, "" if there is none. A key that is not 1 to 255 printable ASCII characters
// is CodeInvalid.
func IdempotencyKey(c echo.Context) (string, error) {
	values := c.Request().Header.Values(HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	bad := len(values) > 1 || key == "" || len(key) > maxIdempotencyKey
	for i := range len(key) {
		bad = bad || key[i] < 0x20 || key[i] > 0x7e
	}
	if bad {
		return "", dbaas.Errorf(dbaas.CodeInvalid, "%s is not 1 to %d printable characters", HeaderIdempotencyKey, maxIdempotencyKey)
	}
	return key, nil
}
