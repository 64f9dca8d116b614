// Package charts has the module that draws all charts, in the console and in the reports: as SVG, in the browser. Neither of
// its two files loads another file.
package charts

import "embed"

// The names of the files.
const (
	Script = "chart.js"
	Style  = "chart.css"
)

// Files holds the module and its style sheet. A page with the style sheet sets the colours --text, --muted and --line.
//
//go:embed chart.js chart.css
var Files embed.FS
