package apidoc

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// schema has the fields of a JSON Schema that the page shows.
type schema struct {
	ref

	Type                 any // a name or a list of names
	Description, Pattern string
	Minimum, Maximum     json.Number
	Enum                 []any
	Const                any
	OneOf, PrefixItems   []*schema
	Items                *schema
	Properties           map[string]*schema
	Required             []string
	Additional           any `json:"additionalProperties"`
}

// typeText names the type in one line. A named schema is a link to its description on the page.
func (s *schema) typeText() template.HTML {
	esc := template.HTMLEscapeString
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return template.HTML(`<a href="#` + esc(s.name()) + `">` + esc(s.name()) + `</a>`) //nolint:gosec // The name is escaped.
	case s.Const != nil:
		return template.HTML(esc(fmt.Sprintf("%q", s.Const))) //nolint:gosec // It is escaped.
	case len(s.Enum) > 0:
		return joined(s.Enum, " | ", func(v any) template.HTML { return template.HTML(esc(fmt.Sprintf("%q", v))) }) //nolint:gosec // It is escaped.
	case len(s.OneOf) > 0:
		return joined(s.OneOf, " or ", (*schema).typeText)
	case len(s.PrefixItems) > 0:
		return "array of " + joined(s.PrefixItems, ", ", (*schema).typeText) + ", and more"
	case s.Items != nil && s.Type == "array":
		return "array of " + s.Items.typeText()
	}
	return template.HTML(esc(s.plainType())) //nolint:gosec // It is escaped.
}

// plainType is the type of a value that has no parts to show.
func (s *schema) plainType() string {
	text := "any"
	switch t := s.Type.(type) {
	case string:
		text = t
	case []any:
		names := make([]string, len(t))
		for i, name := range t {
			names[i] = fmt.Sprint(name)
		}
		text = strings.Join(names, " or ")
	}
	if s.Minimum != "" {
		text += ", at least " + s.Minimum.String()
	}
	if s.Maximum != "" {
		text += ", at most " + s.Maximum.String()
	}
	if s.Pattern != "" {
		text += " " + s.Pattern
	}
	return text
}

// fields returns a row for each property, including those of nested objects; at is the path to s.
func (s *schema) fields(at string) []row {
	if s == nil || s.Ref != "" {
		return nil
	}
	if s.Items != nil {
		return s.Items.fields(at + "[]")
	}
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		path := strings.TrimPrefix(at+"."+name, ".")
		r := row{Name: path, Type: p.typeText(), Note: p.Description}
		if slices.Contains(s.Required, name) {
			r.Where = "always"
		}
		rows = append(append(rows, r), p.fields(path)...)
	}
	return rows
}

// joined returns the texts of the items with between between them.
func joined[T any](items []T, between template.HTML, text func(T) template.HTML) template.HTML {
	var out template.HTML
	for i, item := range items {
		if i > 0 {
			out += between
		}
		out += text(item)
	}
	return out
}
