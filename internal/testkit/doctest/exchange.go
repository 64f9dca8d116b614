package doctest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Exchange is a request and its answer.
type Exchange struct {
	Method string
	URL    *url.URL
	// Request and Answer are the headers.
	Request, Answer http.Header
	// Sent is the request's body, and Got the answer's. A nil body is unknown and not compared.
	Sent, Got []byte
	Status    int
}

// Check returns an error if the document does not allow an exchange. A request that was refused may be wrong on purpose, so
// only its answer is compared.
func (d *Document) Check(x Exchange) error {
	if x.Answer.Get("X-Request-Id") == "" {
		return errors.New("the answer has no X-Request-Id")
	}
	name := d.Find(x.Method, x.URL)
	if name == "" {
		return d.checkUnknown(x)
	}
	c := d.calls[name]
	if x.Status < http.StatusBadRequest {
		if err := c.checkRequest(x, d.pattern(x.URL.EscapedPath())); err != nil {
			return fmt.Errorf("the request of %s: %w", name, err)
		}
	}
	a := c.answers[strconv.Itoa(x.Status)]
	if a == nil {
		if a = c.answers["default"]; !slices.Contains(a.statuses, x.Status) {
			return fmt.Errorf("%s: status %d is not in the document", name, x.Status)
		}
	}
	if err := a.check(x); err != nil {
		return fmt.Errorf("the answer of %s: %w", name, err)
	}
	return nil
}

// checkUnknown compares the answer to a path or method that the document does not have. OPTIONS is answered everywhere.
func (d *Document) checkUnknown(x Exchange) error {
	known := d.pattern(x.URL.EscapedPath()) != ""
	switch {
	case known && x.Method == http.MethodOptions:
		return nil
	case x.Status != http.StatusNotFound && x.Status != http.StatusMethodNotAllowed && !slices.Contains(d.other.statuses, x.Status):
		return fmt.Errorf("the document has no such call, and the answer is %d", x.Status)
	case x.Status == http.StatusMethodNotAllowed && x.Answer.Get("Allow") == "":
		return errors.New("a 405 has no Allow")
	}
	return d.other.check(x)
}

// checkRequest compares the parameters and the body of a request.
func (c *call) checkRequest(x Exchange, pattern string) error {
	query := x.URL.Query()
	inPath, _ := match(pattern, x.URL.EscapedPath())
	for _, p := range c.parameters {
		values := map[string][]string{"path": {inPath[p.name]}, "query": query[p.name], "header": x.Request.Values(p.name)}[p.in]
		if p.in == "query" {
			delete(query, p.name)
		}
		if err := p.check(values); err != nil {
			return fmt.Errorf("%s parameter %w", p.in, err)
		}
	}
	for name := range query {
		return fmt.Errorf("query parameter %s is not in the document", name)
	}
	return c.checkBody(x)
}

// checkBody compares the body of a request. A service that accepts JSON accepts it with any Content-Type. A body where none
// is expected is ignored.
func (c *call) checkBody(x Exchange) error {
	if x.Sent == nil || c.noBody {
		return nil
	}
	if len(x.Sent) == 0 {
		if c.required {
			return errors.New("the body is missing")
		}
		return nil
	}
	kind, _, _ := mime.ParseMediaType(x.Request.Get("Content-Type")) // any type is taken
	schema, ok := c.body[kind]
	if !ok {
		if schema, ok = c.body["application/json"]; !ok {
			return nil
		}
		kind = "application/json"
	}
	if kind != "application/json" {
		return nil
	}
	if err := validJSON(schema, x.Sent); err != nil {
		return fmt.Errorf("body %.200q: %w", x.Sent, err)
	}
	return nil
}

// check compares the values of a parameter or header.
func (p *parameter) check(values []string) error {
	if len(values) == 0 {
		if p.required {
			return fmt.Errorf("%s is missing", p.name)
		}
		return nil
	}
	for _, value := range values {
		if err := valid(p.schema, value); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// check compares headers and body of an answer.
func (a *answer) check(x Exchange) error {
	for _, h := range a.headers {
		if err := h.check(x.Answer.Values(h.name)); err != nil {
			return fmt.Errorf("header %w", err)
		}
	}
	if a.content == nil {
		if len(x.Got) > 0 {
			return fmt.Errorf("got body %.200q, want none", x.Got)
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(x.Answer.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("Content-Type %q: %w", x.Answer.Get("Content-Type"), err)
	}
	schema, ok := a.content[kind]
	switch {
	case !ok:
		return fmt.Errorf("type %s is not in the document", kind)
	case x.Method == http.MethodHead && len(x.Got) > 0:
		return errors.New("an answer to HEAD has a body")
	case x.Method == http.MethodHead || x.Got == nil || schema == nil:
		return nil
	case kind == "application/x-ndjson":
		for line := range bytes.Lines(x.Got) {
			if err = validJSON(schema, line); err != nil {
				return fmt.Errorf("line %.200q: %w", line, err)
			}
		}
	case strings.HasSuffix(kind, "json"):
		if err = validJSON(schema, x.Got); err != nil {
			return fmt.Errorf("status %d, body %.300q: %w", x.Status, x.Got, err)
		}
	}
	return nil
}
