package apidoc_test

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"rideshare/internal/apidoc"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/doctest"
)

// own is the part of a small service.
const own = `{
  "info": {"title": "pets", "summary": "Pets & more"},
  "tags": [{"name": "pets", "description": "All <b>pets</b>"}, {"name": "health"}, {"name": "documentation"}],
  "paths": {"/pets/{id}": {"get": {
    "tags": ["pets"], "summary": "One pet", "description": "By its id.", "x-role": "read", "security": [{"basic": []}],
    "parameters": [{"name": "id", "in": "path", "required": true, "description": "Its number", "schema": {"type": "integer", "minimum": 1}, "example": 1}],
    "responses": {
      "200": {"description": "The pet", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}, "example": {"name": "<i>rex</i>"}}}},
      "401": {"$ref": "#/components/responses/Unauthorized"}, "503": {"$ref": "#/components/responses/Busy"}
    }
  }}},
  "components": {
    "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
    "schemas": {"Pet": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string", "description": "As it is called"},
      "kind": {"enum": ["cat", "dog"]}, "friends": {"type": "array", "items": {"type": "object", "properties": {"since": {"type": ["integer", "null"]}}}}
    }}}
  }
}`

func part(text string) fstest.MapFS { return fstest.MapFS{"openapi/own.json": {Data: []byte(text)}} }

// get asks a service that has the routes of a document.
func get(t *testing.T, parts ...fstest.MapFS) func(path string) *httptest.ResponseRecorder {
	t.Helper()
	var folders []fs.FS
	for _, p := range parts {
		folders = append(folders, p)
	}
	doc := apidoc.New(folders...)
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	doc.Register(a)
	return func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w
	}
}

// The document has what its parts and common.json have, and is valid.
func TestDocument_JoinsItsParts(t *testing.T) {
	w := get(t, part(own))(apidoc.PathJSON)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %v", w.Code, w.Header())
	}
	if _, err := doctest.Parse(w.Body.Bytes()); err != nil {
		t.Error(err)
	}
	var got struct {
		OpenAPI    string
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	schemas := got.Components.Schemas
	if got.OpenAPI != "3.1.0" || got.Paths["/pets/{id}"] == nil || got.Paths["/livez"] == nil || schemas["Pet"] == nil || schemas["Problem"] == nil {
		t.Errorf("a part is missing: %s", w.Body)
	}
}

// Parts that contradict each other, or are no JSON, are a broken program: 500, and not half a document.
func TestDocument_PartsThatDoNotFit_AreRefused(t *testing.T) {
	for _, text := range []string{`{"paths":{"/livez":{"get":{"summary":"mine"}}}}`, `{"openapi":"3.1.0"}`, `{`, `[]`} {
		for _, path := range []string{apidoc.PathJSON, apidoc.PathPage} {
			if w := get(t, part(own), part(text))(path); w.Code != http.StatusInternalServerError {
				t.Errorf("%s with %s: got %d %.200s", path, text, w.Code, w.Body)
			}
		}
	}
}

// The page shows each call with its parameters, answers and types, and links each type to where the page describes it.
func TestPage_ShowsTheDocument(t *testing.T) {
	ask := get(t, part(own))
	page := ask(apidoc.PathPage).Body.String()
	for _, want := range []string{
		"<h1>pets</h1>", "Pets &amp; more", "All &lt;b&gt;pets&lt;/b&gt;", "<code>/pets/{id}</code>", "One pet", "By its id.", "the role <b>read</b>",
		"integer, at least 1", "path, required", "Its number", "&lt;i&gt;rex&lt;/i&gt;", `<a href="#Pet">Pet</a>`, `id="Pet"`, "As it is called",
		`&#34;cat&#34; | &#34;dog&#34;`,
		"friends[].since", "integer or null", "WWW-Authenticate", "Seconds to wait", "/livez",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([A-Za-z]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("a link leads to %s, which is not on the page", link[1])
		}
	}
	if strings.Contains(page, "ZgotmplZ") {
		t.Error("the template refused a value")
	}
}

// The page loads nothing but its style sheet, has no script, and its policy says the same to the browser.
func TestPage_LoadsNothingElsewhere(t *testing.T) {
	ask := get(t, part(own))
	page, style := ask(apidoc.PathPage), ask(apidoc.PathStyle)
	for _, w := range []*httptest.ResponseRecorder{page, style} {
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'self';") {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
		if found := regexp.MustCompile(`//[a-z]|<script|style="|url\(|@import`).FindString(w.Body.String()); found != "" {
			t.Errorf("found %s", found)
		}
	}
	if !strings.Contains(page.Body.String(), `href="`+apidoc.PathStyle+`"`) || !strings.HasPrefix(style.Header().Get("Content-Type"), "text/css") {
		t.Errorf("the page has no style: %v", style.Header())
	}
}
