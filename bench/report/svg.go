package report

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// size is that of a drawing, in the points that become CSS pixels at full width.
type size struct{ width, height, text vg.Length }

// A narrow screen gets a drawing of its own: the wide one scaled down would be too small to read.
var (
	wideSize   = size{width: 880, height: 270, text: 12}
	narrowSize = size{width: 360, height: 240, text: 11}
)

// The library draws in fixed colours. In the finished drawing these are replaced by names of the page's style, which
// differ between light and dark.
var (
	lineInk = color.RGBA{R: 1, G: 2, B: 3, A: 255}
	bandInk = color.RGBA{R: 1, G: 2, B: 4, A: 255}
	inks    = seriesInks()
	styles  = strings.NewReplacer(styleNames()...)
)

// maxSeries is how many series of one plot have distinct colours.
const maxSeries = 8

func seriesInks() [maxSeries]color.RGBA {
	var made [maxSeries]color.RGBA
	for i := range made {
		made[i] = color.RGBA{R: 1, G: 3, B: uint8(i), A: 255}
	}
	return made
}

// styleNames returns pairs of a fixed colour and its replacement.
func styleNames() []string {
	names := []string{hex(lineInk), "var(--line)", hex(bandInk), "var(--band)"}
	for i, ink := range inks {
		names = append(names, hex(ink), fmt.Sprintf("var(--c%d)", i))
	}
	return names
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// newPlot returns an empty plot with axes in the page's style.
func newPlot(s size, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for axis, label := range map[*plot.Axis]string{&p.X: x, &p.Y: y} {
		axis.Label.Text = label
		axis.Label.TextStyle.Font = face(s.text)
		axis.Tick.Label.Font = face(s.text)
		axis.Color = lineInk
		axis.Tick.Color = lineInk
		axis.Tick.Length = 4
	}
	return p
}

func face(points vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: points}
}

var errNoDrawing = errors.New("the drawing has no svg element")

// render returns the plot as an SVG element without a size of its own: the page gives it one.
func render(p *plot.Plot, s size, title string) (template.HTML, error) {
	canvas := vgsvg.New(s.width, s.height)
	area := draw.New(canvas)
	// Labels at the ends of an axis reach beyond it.
	p.Draw(draw.Crop(area, 2, -s.text, 2, -s.text/2))
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return "", fmt.Errorf("encode drawing: %w", err)
	}
	_, body, found := strings.Cut(text.String(), "<svg")
	_, body, closed := strings.Cut(body, ">")
	if !found || !closed {
		return "", errNoDrawing
	}
	open := fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, s.width.Points(), s.height.Points(), template.HTMLEscapeString(title))
	return template.HTML(open + styles.Replace(body)), nil //nolint:gosec // every text in it was escaped by the library or above.
}
