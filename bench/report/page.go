// Package report makes one self-contained HTML file of figures: tables and charts, readable on light and dark screens
// and in print. This package computes the layout of the charts, and the template draws them as SVG.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
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

var pageTemplate = template.Must(template.New("page").Parse(pageText))

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
