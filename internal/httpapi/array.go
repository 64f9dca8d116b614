package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// arrayPiece is the size in bytes from which an Array sends what it has buffered.
const arrayPiece = 64 << 10

// Array answers with a JSON array whose items are sent one by one, without holding all of them in memory. An error
// after the first piece was sent aborts the answer, so that the client cannot take it for complete. A long answer is cut
// off as by WriteLong: all its pieces are one transfer.
type Array struct {
	c    echo.Context
	buf  bytes.Buffer
	enc  *json.Encoder
	n    int
	sent *transfer
}

// NewArray returns an Array that has sent nothing yet.
func NewArray(c echo.Context) *Array {
	a := &Array{c: c, sent: newAnswering(c)}
	a.enc = json.NewEncoder(&a.buf)
	a.enc.SetEscapeHTML(false)
	return a
}

// Add adds an item.
func (a *Array) Add(item any) error {
	open := byte(',')
	if a.n == 0 {
		open = '['
	}
	a.n++
	a.buf.WriteByte(open)
	if err := a.enc.Encode(item); err != nil {
		return fmt.Errorf("encode item: %w", err)
	}
	a.buf.Truncate(a.buf.Len() - 1) // the encoder's line break
	if a.buf.Len() < arrayPiece {
		return nil
	}
	a.sent.pool = heldPool(a.c.Request())
	return a.flush()
}

// flush sends the buffered bytes.
func (a *Array) flush() error {
	w := a.c.Response()
	if !w.Committed {
		w.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		w.WriteHeader(http.StatusOK)
	}
	err := a.sent.write(a.c, a.buf.Bytes())
	a.buf.Reset()
	return err
}

// End sends the rest, or 204 if no item was added.
func (a *Array) End() error {
	if a.n == 0 {
		return a.c.NoContent(http.StatusNoContent)
	}
	a.buf.WriteByte(']')
	return a.flush()
}
