// Package doctest compares what a service takes and sends with its OpenAPI document.
package doctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// place is the name of the document for the compiler of schemas.
const place = "urn:openapi.json"

// Document is an OpenAPI document, ready for exchanges to be compared with it. It is safe for concurrent use.
type Document struct {
	calls    map[string]*call // by METHOD /path/{parameter}
	patterns []string         // the paths
	other    *answer          // the answer to a path or a method that does not exist
}

// call is an operation of the document.
type call struct {
	role       string
	example    Example
	parameters []parameter
	noBody     bool // the body must be empty
	required   bool // the body must be there
	body       map[string]*jsonschema.Schema
	answers    map[string]*answer // by status, or "default"
}

type parameter struct {
	name, in string
	required bool
	schema   *jsonschema.Schema
}

type answer struct {
	headers  []parameter
	content  map[string]*jsonschema.Schema // by media type; nil: no body
	statuses []int                         // the statuses of this answer if every call may have it (x-statuses)
}

// Example is a request with the examples of the document.
type Example struct {
	Path     map[string]string
	Query    url.Values
	Body     string
	BodyType string
}

// Parse reads a document. It returns an error unless the document is valid OpenAPI 3.1, and all its schemas and examples
// are valid.
func Parse(text []byte) (*Document, error) {
	loaded, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if !loaded.IsOpenAPI31OrLater() {
		return nil, fmt.Errorf("the document is OpenAPI %s, want 3.1", loaded.OpenAPI)
	}
	if err = loaded.Validate(context.Background()); err != nil {
		return nil, err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	closeObjects(root)
	r := &reader{root: root.(map[string]any), compiler: jsonschema.NewCompiler()}
	r.compiler.DefaultDraft(jsonschema.Draft2020)
	r.compiler.AssertFormat()
	if err = r.compiler.AddResource(place, root); err != nil {
		return nil, err
	}
	return r.document()
}

// closeObjects forbids other members in each object with known members, unless the document says otherwise. So a check
// finds members that a service sends and the document does not have, although the document itself allows members of later
// versions.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		_, known := node["properties"]
		if _, said := node["additionalProperties"]; known && !said && node["type"] == "object" {
			node["additionalProperties"] = false
		}
		for _, inner := range node {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range node {
			closeObjects(inner)
		}
	}
}

// Calls returns the operations of the document, such as "GET /api/v1/users/{username}", sorted.
func (d *Document) Calls() []string { return slices.Sorted(maps.Keys(d.calls)) }

// Role returns the role that a route of a router, such as "GET /x/:id", needs by the document; "" if it needs none.
func (d *Document) Role(route string) string {
	if c := d.calls[nameOf(route)]; c != nil {
		return c.role
	}
	return ""
}

// Example returns the example of a call.
func (d *Document) Example(name string) Example { return d.calls[name].example }

// Find returns the name of the call of a request, or "" if there is none. A path that two patterns match belongs to the one
// with fewer parameters. HEAD is GET.
func (d *Document) Find(method string, u *url.URL) string {
	pattern := d.pattern(u.EscapedPath())
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if name := method + " " + pattern; pattern != "" && d.calls[name] != nil {
		return name
	}
	return ""
}

// pattern returns the pattern of a path, or "".
func (d *Document) pattern(path string) string {
	best := ""
	for _, pattern := range d.patterns {
		if _, ok := match(pattern, path); ok && (best == "" || strings.Count(pattern, "{") < strings.Count(best, "{")) {
			best = pattern
		}
	}
	return best
}

// match returns the parameters of a path, if it has the form of pattern.
func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	parameters := map[string]string{}
	for i, segment := range want {
		if strings.HasPrefix(segment, "{") && got[i] != "" {
			value, err := url.PathUnescape(got[i])
			if err != nil {
				return nil, false
			}
			parameters[strings.Trim(segment, "{}")] = value
		} else if segment != got[i] {
			return nil, false
		}
	}
	return parameters, true
}

// valid reports whether a text, as in a path or a header, is a value of the schema: as a string, a number or a boolean.
func valid(schema *jsonschema.Schema, text string) error {
	err := schema.Validate(text)
	if err == nil {
		return nil
	}
	value, bad := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if bad != nil {
		return err
	}
	return schema.Validate(value)
}

// validJSON reports whether a text is JSON and a value of the schema.
func validJSON(schema *jsonschema.Schema, text []byte) error {
	if !json.Valid(text) {
		return errors.New("the body is no JSON")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
