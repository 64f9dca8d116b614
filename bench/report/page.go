// Package report makes one self-contained HTML file of figures: tables and charts, readable on light and dark screens
// and in print. The module of internal/charts, which is in the file, draws the charts when it is opened.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"rideshare/internal/charts"
)

// Page is a report.
type Page struct {
	Title string
	// Lead is a sentence or two under the title.
	Lead string
	// Facts are shown large, beneath the lead.
	Facts    []Fact
	Sections []Section
}

// Fact is one figure that matters.
type Fact struct {
	Name, Value string
	// Bad marks a value that needs attention.
	Bad bool
}

// Section is a heading with its text, charts and tables.
type Section struct {
	Title, Text string
	Charts      []Chart
	Tables      []Table
}

// Table is figures in rows. The first column is text; the others are set as numbers.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Text sets all columns as text.
	Text bool
}

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() (template.CSS, error) {
		text, err := charts.Files.ReadFile(charts.Style)
		return template.CSS(text), err //nolint:gosec // It is a file of this program.
	},
	"script": func() (template.JS, error) {
		text, err := charts.Files.ReadFile(charts.Script)
		return template.JS(text), err //nolint:gosec // It is a file of this program.
	},
}).Parse(pageText))

// Write writes the page as HTML.
func (p *Page) Write(w io.Writer) error {
	for _, section := range p.Sections {
		for _, chart := range section.Charts {
			if err := chart.check(); err != nil {
				return fmt.Errorf("draw %q: %w", chart.Title, err)
			}
		}
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
