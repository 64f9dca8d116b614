// Package console is the page for operators at GET / of the orchestrator, and the stream of measurements behind it.
//
// The page is embedded, has no build step, and loads nothing from other hosts. It holds no data: it asks the
// orchestrator's API for everything, with the credentials that the user types in.
package console

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"time"

	"rideshare/internal/charts"
)

//go:embed web
var web embed.FS

// Prefix is where the page's files are, besides the page itself at /.
const Prefix = "/console/"

// policy lets the page load and call only its own host, and lets no other page frame it.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types has the media type of each kind of file, since the system's table of types may lack some.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Files serves the page at / and its files below Prefix; name is what follows the prefix, or "" for the page. It reports
// whether there is such a file.
func Files(w http.ResponseWriter, r *http.Request, name string) bool {
	if name == "" {
		name = "index.html"
	}
	content, err := web.ReadFile(path.Join("web", path.Base(name)))
	if err != nil {
		content, err = charts.Files.ReadFile(path.Base(name))
	}
	if err != nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(name)])
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return true
}
