package doctest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/apidoc"
)

// parameters matches a parameter in a pattern of the router.
var parameters = regexp.MustCompile(`:(\w+)`)

// nameOf returns the name in a document of a route, such as "GET /x/:id".
func nameOf(route string) string { return parameters.ReplaceAllString(route, "{$1}") }

// Routes returns doc, ready for comparison. It fails the test unless the document is valid and has exactly the given routes,
// such as "GET /x/:id". HEAD and OPTIONS are not in a document.
func Routes(tb testing.TB, doc *apidoc.Document, routes []string) *Document {
	tb.Helper()
	text, err := doc.JSON()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := Parse(text)
	if err != nil {
		tb.Fatalf("the document: %v", err)
	}
	documented := d.Calls()
	for _, route := range routes {
		if strings.HasPrefix(route, http.MethodHead+" ") || strings.HasPrefix(route, http.MethodOptions+" ") {
			continue
		}
		at := slices.Index(documented, nameOf(route))
		if at < 0 {
			tb.Errorf("route %s is not in the document", route)
			continue
		}
		documented = slices.Delete(documented, at, at+1)
	}
	for _, call := range documented {
		tb.Errorf("%s is in the document, and is no route", call)
	}
	return d
}
