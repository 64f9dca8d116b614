// Package report makes one self-contained HTML file of figures: tables and plots, readable on light and dark, wide and
// narrow screens.
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

// Section is a heading with what belongs under it: text, plots, tables.
type Section struct {
	Title, Text string
	Plots       []Plot
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

// Plot is a drawing: Lines or Bars.
type Plot interface {
	// describe returns the text around the drawing.
	describe() caption
	// draw returns the drawing as an SVG element of that size.
	draw(size size) (template.HTML, error)
}

// caption is the text around a drawing.
type caption struct {
	Title, Text string
	Legend      []key
}

// key is one entry of a legend.
type key struct {
	Name  string
	Class string // of its colour
}

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// figure is a plot prepared for the template, drawn for a wide and a narrow screen.
type figure struct {
	caption
	Wide, Narrow template.HTML
}

// drawn is a section with its plots drawn.
type drawn struct {
	Section
	Figures []figure
}

// Write writes the page as HTML.
func (p *Page) Write(w io.Writer) error {
	data := struct {
		*Page
		Drawn []drawn
	}{Page: p}
	for _, section := range p.Sections {
		d := drawn{Section: section}
		for _, plot := range section.Plots {
			f, err := drawFigure(plot)
			if err != nil {
				return fmt.Errorf("draw %q: %w", plot.describe().Title, err)
			}
			d.Figures = append(d.Figures, f)
		}
		data.Drawn = append(data.Drawn, d)
	}
	if err := pageTemplate.Execute(w, data); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func drawFigure(plot Plot) (figure, error) {
	wide, err := plot.draw(wideSize)
	if err != nil {
		return figure{}, err
	}
	narrow, err := plot.draw(narrowSize)
	if err != nil {
		return figure{}, err
	}
	return figure{caption: plot.describe(), Wide: wide, Narrow: narrow}, nil
}
