package orchestratorapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

const (
	// largeAnswer is the size in bytes above which an answer counts against the budget and is sent in pieces, uncopied.
	largeAnswer = 64 << 10
	// bufferedAnswer is the size in bytes up to which net/http adds the Content-Length itself.
	bufferedAnswer = 2 << 10
	// indentRoom is the most extra memory that indenting takes, in bytes per byte of the answer: a digit and a comma
	// become a line of their own.
	indentRoom = 24
)

// answer is the body of an answer, in the pieces in which it was built.
type answer struct {
	head string
	body []byte
	tail []byte
}

// untilError returns the results in b up to the first one that is an error.
func untilError(b []byte) []byte {
	key := []byte(`{"error":`)
	if !bytes.Contains(b, key) {
		return b
	}
	depth, text, failed := 0, false, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			failed = failed || depth == 0 && bytes.HasPrefix(b[i:], key)
			depth++
		case c == '}' || c == ']':
			if depth--; failed && depth == 0 {
				return b[:i+1]
			}
		}
	}
	return b
}

// respond sends the answer, indented if the client asked for that.
func (a *API) respond(c echo.Context, o *options, ans answer) error {
	if o.pretty {
		return indent(c, ans)
	}
	return send(c, ans)
}

// send sends the answer without indenting it. It sends a large answer piece by piece.
func send(c echo.Context, ans answer) error {
	if len(ans.body) <= largeAnswer {
		return blob(c, ans.join())
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(ans.head)+len(ans.body)+len(ans.tail)))
	c.Response().WriteHeader(http.StatusOK)
	for _, piece := range [][]byte{[]byte(ans.head), ans.body, ans.tail} {
		if err := httpapi.WriteLong(c, piece); err != nil {
			return err
		}
	}
	return nil
}

// blob sends body in one piece, with its length: a client mistakes an answer without a length for a very large one.
func blob(c echo.Context, body []byte) error {
	if len(body) > bufferedAnswer {
		c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	}
	return c.JSONBlob(http.StatusOK, body)
}

// join returns the answer in one piece.
func (ans answer) join() []byte {
	if ans.head == "" && ans.tail == nil {
		return ans.body
	}
	b := make([]byte, 0, len(ans.head)+len(ans.body)+len(ans.tail))
	return append(append(append(b, ans.head...), ans.body...), ans.tail...)
}

// prettyIndent is the indent of rqlite's API.
const prettyIndent = "    "

// indent sends the answer indented. If indenting takes too much room, the answer is sent without it: an operation that
// was done must not be refused because of its format.
func indent(c echo.Context, ans answer) error {
	if n := int64(len(ans.body)); n > largeAnswer && httpapi.Hold(c.Request().Context(), indentRoom*n) != nil {
		return send(c, ans)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, ans.join(), "", prettyIndent); err != nil {
		return fmt.Errorf("indent answer: %w", err)
	}
	return send(c, answer{body: out.Bytes()})
}
