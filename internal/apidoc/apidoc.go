// Package apidoc serves the OpenAPI document of a service at /openapi.json, and a page that shows it at /docs.
//
// A document consists of parts, which are JSON files beside the routes that they describe. common.json is a part of every
// document.
package apidoc

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"sync"

	"rideshare/internal/httpapi"
)

//go:embed common.json
var common embed.FS

//go:embed style.css
var style []byte

// The paths of the routes.
const (
	PathJSON  = "/openapi.json"
	PathPage  = "/docs"
	PathStyle = "/docs/style.css"
)

// policy lets the page load only its own style and the empty icon in it, and lets no other page frame it.
const policy = "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Document is the OpenAPI document of a service. It is built at its first use, so that processes that serve no
// documents do not spend time on it.
type Document struct {
	text func() ([]byte, error)
	page func() ([]byte, error)
}

// New returns the document that consists of the JSON files in the given folders and of common.json.
func New(parts ...fs.FS) *Document {
	d := &Document{text: sync.OnceValues(func() ([]byte, error) { return join(append(parts, common)) })}
	d.page = sync.OnceValues(func() ([]byte, error) {
		text, err := d.text()
		if err != nil {
			return nil, err
		}
		return render(text)
	})
	return d
}

// JSON returns the document. An error means that the program itself is broken.
func (d *Document) JSON() ([]byte, error) { return d.text() }

// Register adds the routes to a. They require no credentials.
func (d *Document) Register(a *httpapi.API) {
	a.HandleFunc(http.MethodGet, PathJSON, d.ServeJSON)
	a.HandleFunc(http.MethodGet, PathPage, d.ServePage)
	a.HandleFunc(http.MethodGet, PathStyle, ServeStyle)
}

// ServeJSON answers with the document.
func (d *Document) ServeJSON(w http.ResponseWriter, _ *http.Request) error {
	text, err := d.text()
	if err != nil {
		return err
	}
	return send(w, "application/json", text)
}

// ServePage answers with the page.
func (d *Document) ServePage(w http.ResponseWriter, _ *http.Request) error {
	page, err := d.page()
	if err != nil {
		return err
	}
	return send(w, "text/html; charset=utf-8", page)
}

// ServeStyle answers with the style sheet of the page.
func ServeStyle(w http.ResponseWriter, _ *http.Request) error {
	return send(w, "text/css; charset=utf-8", style)
}

func send(w http.ResponseWriter, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body) // the client may have gone
	return nil
}

// join merges the parts into one document. Two parts may add members to the same object, but not the same member.
func join(parts []fs.FS) ([]byte, error) {
	all := map[string]any{}
	for _, part := range parts {
		err := fs.WalkDir(part, ".", func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".json" {
				return err
			}
			return add(all, part, name)
		})
		if err != nil {
			return nil, fmt.Errorf("join the OpenAPI document: %w", err)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return out.Bytes(), nil
}

// add adds the file of a part to all.
func add(all map[string]any, part fs.FS, name string) error {
	text, err := fs.ReadFile(part, name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var more map[string]any
	if err = dec.Decode(&more); err == nil {
		err = merge(all, more)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// merge adds the members of from to into.
func merge(into, from map[string]any) error {
	for name, value := range from {
		present, exists := into[name]
		if !exists {
			into[name] = value
			continue
		}
		inner, isObject := present.(map[string]any)
		more, areBoth := value.(map[string]any)
		if !isObject || !areBoth {
			return fmt.Errorf("another part has the member %q too", name)
		}
		if err := merge(inner, more); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
