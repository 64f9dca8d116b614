package apidoc

import (
	"bytes"
	_ "embed" // for page.html
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// ref is part of an object that may be a reference to another place in the document.
type ref struct {
	Ref string `json:"$ref"`
}

// name is the last segment of the reference.
func (r ref) name() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

// The parts of a document that the page shows.
type (
	source struct {
		Info       struct{ Title, Summary, Description, Version string }
		Tags       []struct{ Name, Description string }
		Paths      map[string]map[string]operation
		Components struct {
			Schemas    map[string]*schema
			Parameters map[string]parameter
			Responses  map[string]response
			Headers    map[string]header
		}
	}
	operation struct {
		Tags                 []string
		Summary, Description string
		Role                 string `json:"x-role"`
		Parameters           []parameter
		RequestBody          struct{ Content content }
		Responses            map[string]response
	}
	parameter struct {
		ref

		Name, In, Description string
		Required              bool
		AllowEmptyValue       bool
		Schema                *schema
	}
	response struct {
		ref

		Description string
		Headers     map[string]header
		Content     content
	}
	header struct {
		ref

		Description string
	}
	content map[string]struct {
		Schema  *schema
		Example json.RawMessage
	}
)

// The page.
type (
	page struct {
		Title, Summary, Description string
		Groups                      []group
		Schemas                     []namedSchema
	}
	group struct {
		Name, Description string
		Calls             []call
	}
	call struct {
		ID, Method, Path, Summary, Description, Role string
		Parameters                                   []row
		Body                                         []media
		Answers                                      []answer
	}
	// row is a line of a table.
	row struct {
		Name, Where string
		Type        template.HTML
		Note        string
	}
	media struct {
		Type    string
		Schema  template.HTML
		Fields  []row
		Example string
	}
	answer struct {
		Status, Description string
		Headers             []row
		Body                []media
	}
	namedSchema struct {
		Name, Note string
		Type       template.HTML
		Fields     []row
	}
)

// methods are in the order in which the page shows them.
var methods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete}

// render returns the page that shows a document.
func render(text []byte) ([]byte, error) {
	var doc source
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	p := page{Title: doc.Info.Title, Summary: doc.Info.Summary, Description: doc.Info.Description}
	for _, tag := range doc.Tags {
		p.Groups = append(p.Groups, group{Name: tag.Name, Description: tag.Description, Calls: doc.calls(tag.Name)})
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		p.Schemas = append(p.Schemas, namedSchema{Name: name, Note: s.Description, Type: s.typeText(), Fields: s.fields("")})
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	return out.Bytes(), nil
}

// calls returns the calls that have a tag, by path.
func (d *source) calls(tag string) []call {
	var all []call
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range methods {
			op, ok := d.Paths[path][strings.ToLower(method)]
			if !ok || !slices.Contains(op.Tags, tag) {
				continue
			}
			c := call{ID: method + path, Method: method, Path: path, Summary: op.Summary, Description: op.Description, Role: op.Role}
			for _, param := range op.Parameters {
				if param.Ref != "" {
					param = d.Components.Parameters[param.name()]
				}
				r := row{Name: param.Name, Where: param.In, Type: param.Schema.typeText(), Note: param.Description}
				if param.AllowEmptyValue {
					r.Type = "flag"
				}
				if param.Required {
					r.Where += ", required"
				}
				c.Parameters = append(c.Parameters, r)
			}
			c.Body = medias(op.RequestBody.Content)
			c.Answers = d.answers(op.Responses)
			all = append(all, c)
		}
	}
	return all
}

// answers returns the answers of a call, by status. Answers that refer to the same named response are merged into one.
func (d *source) answers(responses map[string]response) []answer {
	var all []answer
	named := map[string]int{} // the places in all
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		r := responses[status]
		if r.Ref != "" {
			if at, shown := named[r.Ref]; shown {
				all[at].Status += " " + status
				continue
			}
			named[r.Ref] = len(all)
			r = d.Components.Responses[r.name()]
		}
		a := answer{Status: status, Description: r.Description, Body: medias(r.Content)}
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			h := r.Headers[name]
			if h.Ref != "" {
				h = d.Components.Headers[h.name()]
			}
			a.Headers = append(a.Headers, row{Name: name, Note: h.Description})
		}
		all = append(all, a)
	}
	return all
}

// medias returns the forms of a body, by media type.
func medias(forms content) []media {
	var all []media
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		form := forms[name]
		all = append(all, media{Type: name, Schema: form.Schema.typeText(), Fields: form.Schema.fields(""), Example: string(form.Example)})
	}
	return all
}
