package doctest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// methods are the members of a path that are operations.
var methods = []string{"get", "put", "post", "patch", "delete"}

// reader makes a Document from its JSON.
type reader struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	errs     []error
}

// node is an object of the document, and the pointer to it.
type node struct {
	at     string
	fields map[string]any
}

// document reads all operations.
func (r *reader) document() (*Document, error) {
	d := &Document{calls: map[string]*call{}}
	paths := r.inner(node{"", r.root}, "paths")
	for pattern := range paths.fields {
		item := r.inner(paths, pattern)
		d.patterns = append(d.patterns, pattern)
		for _, method := range methods {
			if _, ok := item.fields[method]; ok {
				d.calls[strings.ToUpper(method)+" "+pattern] = r.call(r.inner(item, method))
			}
		}
	}
	d.other = r.answer(r.inner(r.inner(r.inner(node{"", r.root}, "components"), "responses"), "Other"))
	return d, errors.Join(r.errs...)
}

// inner returns a member of n. If that is a reference, inner follows it.
func (r *reader) inner(n node, name string) node {
	fields, _ := n.fields[name].(map[string]any)
	found := node{n.at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), fields}
	for {
		ref, ok := found.fields["$ref"].(string)
		if !ok {
			return found
		}
		found = node{"", r.root}
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			found = r.inner(found, part)
		}
	}
}

// schema compiles the member schema of n; nil without one.
func (r *reader) schema(n node) *jsonschema.Schema {
	if n.fields["schema"] == nil {
		return nil
	}
	schema, err := r.compiler.Compile(place + "#" + escape(n.at) + "/schema")
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return schema
}

// escape makes a pointer fit for the fragment of an address.
func escape(pointer string) string { return (&url.URL{Fragment: pointer}).EscapedFragment() }

// call reads an operation.
func (r *reader) call(n node) *call {
	c := &call{example: Example{Path: map[string]string{}, Query: url.Values{}}, answers: map[string]*answer{}}
	c.role, _ = n.fields["x-role"].(string)
	if _, secured := n.fields["security"]; secured != (c.role != "") || secured != (r.inner(n, "responses").fields["401"] != nil) {
		r.errs = append(r.errs, fmt.Errorf("%s: security, x-role and 401 do not go together", n.at))
	}
	list, _ := n.fields["parameters"].([]any)
	for i := range list {
		p := r.inner(node{n.at + "/parameters", map[string]any{fmt.Sprint(i): list[i]}}, fmt.Sprint(i))
		read := r.parameter(p, fmt.Sprint(p.fields["name"]))
		read.in = fmt.Sprint(p.fields["in"])
		c.parameters = append(c.parameters, read)
		r.parameterExample(c, read, p.fields["example"])
	}
	body := r.inner(n, "requestBody")
	c.noBody, c.required = body.fields == nil, body.fields["required"] == true
	c.body = r.content(body, &c.example)
	responses := r.inner(n, "responses")
	for status := range responses.fields {
		c.answers[status] = r.answer(r.inner(responses, status))
	}
	return c
}

// parameterExample adds the example of a parameter to that of the call.
func (r *reader) parameterExample(c *call, p parameter, example any) {
	switch {
	case example == nil:
		if p.required {
			r.errs = append(r.errs, fmt.Errorf("parameter %s has no example", p.name))
		}
	case p.in == "path":
		c.example.Path[p.name] = fmt.Sprint(example)
	case p.in == "query":
		c.example.Query.Set(p.name, fmt.Sprint(example))
	}
}

// parameter reads a parameter or a header.
func (r *reader) parameter(n node, name string) parameter {
	return parameter{name: name, required: n.fields["required"] == true, schema: r.schema(n)}
}

// content reads the schemas of a body by media type, nil if it has none. It sets the body of example, if there is one.
func (r *reader) content(n node, example *Example) map[string]*jsonschema.Schema {
	content := r.inner(n, "content")
	if content.fields == nil {
		return nil
	}
	forms := map[string]*jsonschema.Schema{}
	for _, kind := range slices.Sorted(maps.Keys(content.fields)) {
		form := r.inner(content, kind)
		forms[kind] = r.schema(form)
		value, ok := form.fields["example"]
		if !ok {
			continue
		}
		if text, isText := value.(string); isText {
			example.Body, example.BodyType = text, kind
		} else if encoded, err := json.Marshal(value); err == nil {
			example.Body, example.BodyType = string(encoded), kind
		}
	}
	return forms
}

// answer reads a response.
func (r *reader) answer(n node) *answer {
	var ignored Example
	a := &answer{content: r.content(n, &ignored)}
	headers := r.inner(n, "headers")
	for name := range headers.fields {
		a.headers = append(a.headers, r.parameter(r.inner(headers, name), name))
	}
	statuses, _ := n.fields["x-statuses"].([]any)
	for _, status := range statuses {
		var code int
		if _, err := fmt.Sscan(fmt.Sprint(status), &code); err != nil {
			r.errs = append(r.errs, fmt.Errorf("x-statuses: %w", err))
		}
		a.statuses = append(a.statuses, code)
	}
	return a
}
